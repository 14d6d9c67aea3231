// Package metrics shows relays, the outbox and consumers to Prometheus, also in programs of one's own.
//
//	registry.MustRegister(
//		metrics.NewRelayCollector(forwarder.Stats), // or pipeline.RelayStats
//		outbox,                                     // metrics.NewOutboxCollector(db, metrics.OutboxConfig{})
//		consumers,                                  // metrics.NewConsumerCollector(), whose methods are hooks of a pipeline
//	)
//
// Names, labels and what to do about each are in docs/metrics.md. There is no label an event, an aggregate or a user could
// make up; topics are a label only where they are held, and of those only so many.
package metrics
