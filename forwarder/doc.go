// Package forwarder is Watermill's forwarder component over the leased outbox: it takes committed events to the broker, in
// order per partition key, at least once.
//
// It owns nothing but the way between the two: package outbox says which events may be sent and records what became of
// them, the publisher says what the broker made of each.
//
//	f, err := forwarder.NewForwarder(db, publisher, forwarder.Config{}, logger)
//	err = f.Run(ctx)
package forwarder
