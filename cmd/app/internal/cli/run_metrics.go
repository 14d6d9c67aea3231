package cli

import (
	"context"
	"database/sql"
	_ "embed"
	"strings"

	"github.com/lib/pq"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/outbox"
)

//go:embed pending.sql
var pendingSQL string

// relayMetrics are the relay's counters and, asked for on each scrape, what is waiting.
type relayMetrics struct {
	db    *sql.DB
	query string
	stats func() outbox.Stats

	counters        []counter
	pending, oldest *prometheus.Desc
	up              *prometheus.Desc
}

type counter struct {
	description *prometheus.Desc
	value       func(outbox.Stats) int64
}

func newRelayMetrics(db *sql.DB, schema string, stats func() outbox.Stats) *relayMetrics {
	describe := func(name, text string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_"+name, text, nil, nil)
	}
	return &relayMetrics{
		db: db, stats: stats,
		query: strings.ReplaceAll(pendingSQL, "{{schema}}", pq.QuoteIdentifier(schema)),
		counters: []counter{
			{describe("relay_sent_total", "Events this relay has a receipt for."), func(s outbox.Stats) int64 { return s.Sent }},
			{describe("relay_failed_batches_total", "Batches at least one event of which was not acknowledged."), func(s outbox.Stats) int64 { return s.Failed }},
			{describe("relay_fenced_total", "Receipts refused because another relay had taken the shard over."), func(s outbox.Stats) int64 { return s.Fenced }},
			{describe("relay_takeovers_total", "Shards taken over from a relay whose lease had ended."), func(s outbox.Stats) int64 { return s.Takeovers }},
			{describe("relay_swept_total", "Events the safety sweep found: anything above 0 is an alarm."), func(s outbox.Stats) int64 { return s.Swept }},
			{describe("relay_late_total", "Events that committed after events at higher positions had been read."), func(s outbox.Stats) int64 { return s.Late }},
		},
		pending: describe("outbox_pending", "Committed events that are neither sent nor parked, of all relays, among the 10000 of each shard and held topic that follow what is stored as settled, and 100000 in all: there may be more."),
		oldest:  describe("outbox_oldest_pending_seconds", "Age of the oldest committed event that is neither sent nor parked, among the 10000 of each shard and held topic that follow what is stored as settled."),
		up:      describe("database_up", "1 if PostgreSQL answered this scrape."),
	}
}

// Describe sends what Collect may.
func (m *relayMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.counters {
		out <- c.description
	}
	out <- m.pending
	out <- m.oldest
	out <- m.up
}

// Collect sends the values. While PostgreSQL is away or slow the counters are still there, and what is waiting is not.
func (m *relayMetrics) Collect(out chan<- prometheus.Metric) {
	stats := m.stats()
	for _, c := range m.counters {
		out <- prometheus.MustNewConstMetric(c.description, prometheus.CounterValue, float64(c.value(stats)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	up := 0.0
	if m.db.PingContext(ctx) == nil {
		up = 1
	}
	out <- prometheus.MustNewConstMetric(m.up, prometheus.GaugeValue, up)
	var pending, oldest float64
	if m.db.QueryRowContext(ctx, m.query).Scan(&pending, &oldest) == nil {
		out <- prometheus.MustNewConstMetric(m.pending, prometheus.GaugeValue, pending)
		out <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, oldest)
	}
}
