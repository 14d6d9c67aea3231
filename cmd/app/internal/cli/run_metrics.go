package cli

import (
	"context"
	"database/sql"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/metrics"
)

// newRegistry is what a relay's /metrics shows.
func newRegistry(db *sql.DB, schema string, relay *forwarder.Forwarder, broker prometheus.Collector) (*prometheus.Registry, error) {
	outbox, err := metrics.NewOutboxCollector(db, metrics.OutboxConfig{Schema: schema, Timeout: probeTimeout})
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		metrics.NewRelayCollector(relay.Stats), outbox, broker,
	)
	return registry, nil
}

// brokerMetrics asks on each scrape whether Kafka answers.
type brokerMetrics struct {
	ping func(context.Context) error
	up   *prometheus.Desc
}

func newBrokerMetrics(ping func(context.Context) error) *brokerMetrics {
	return &brokerMetrics{ping, prometheus.NewDesc("millrace_kafka_up", "1 if Kafka answered this scrape.", nil, nil)}
}

// Describe sends what Collect does.
func (m *brokerMetrics) Describe(out chan<- *prometheus.Desc) { out <- m.up }

// Collect sends the value.
func (m *brokerMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	up := 0.0
	if m.ping(ctx) == nil {
		up = 1
	}
	out <- prometheus.MustNewConstMetric(m.up, prometheus.GaugeValue, up)
}
