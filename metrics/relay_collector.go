package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/outbox"
)

// RelayCollector exports what one relay counts. It asks neither the database nor the broker.
type RelayCollector struct {
	stats   func() outbox.Stats
	numbers []number
	parked  *prometheus.Desc
	batch   *prometheus.Desc
	latency *prometheus.Desc
	wakeUp  *prometheus.Desc
}

// number is a metric without labels.
type number struct {
	description *prometheus.Desc
	kind        prometheus.ValueType
	value       func(outbox.Stats) float64
}

// NewRelayCollector exports the counts of a forwarder.Forwarder, an outbox.Subscriber or a pipeline.Pipeline: stats is their
// Stats, or RelayStats.
func NewRelayCollector(stats func() outbox.Stats) *RelayCollector {
	name := func(name, text string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_relay_"+name, text, labels, nil)
	}
	c := &RelayCollector{
		stats:   stats,
		parked:  name("parked_total", "Events this relay parked, by the state they were parked in.", "state"),
		batch:   name("batch_events", "Events handed to the publisher together."),
		latency: name("commit_to_published_seconds", "From when an event was written to its acknowledgement, by the database's clock, without scheduled events."),
		wakeUp:  name("wake_up_connected", "1 while the connection for wake-ups is there; without a series, polling is all there should be."),
	}
	counter := func(n, text string, value func(outbox.Stats) int64) {
		c.numbers = append(c.numbers, number{name(n, text), prometheus.CounterValue, func(s outbox.Stats) float64 { return float64(value(s)) }})
	}
	gauge := func(n, text string, value func(outbox.Stats) float64) {
		c.numbers = append(c.numbers, number{name(n, text), prometheus.GaugeValue, value})
	}
	counter("sent_total", "Events this relay has a receipt for.", func(s outbox.Stats) int64 { return s.Sent })
	counter("failed_batches_total", "Batches at least one event of which was not acknowledged.", func(s outbox.Stats) int64 { return s.Failed })
	counter("publish_attempts_total", "Events handed to the publisher and not returned untouched.", func(s outbox.Stats) int64 { return s.Attempts })
	counter("acknowledged_total", "Attempts the broker acknowledged.", func(s outbox.Stats) int64 { return s.Acknowledged })
	counter("refused_total", "Attempts the broker, or the way to it, refused for good.", func(s outbox.Stats) int64 { return s.Refused })
	counter("unavailable_total", "Attempts that failed because the topic as a whole takes nothing.", func(s outbox.Stats) int64 { return s.Unavailable })
	counter("unknown_outcomes_total", "Attempts of which nobody can tell whether the broker has the event; it is sent again.", func(s outbox.Stats) int64 { return s.Unknown })
	counter("retries_total", "Attempts that were not the event's first.", func(s outbox.Stats) int64 { return s.Retries })
	counter("released_total", "Events that had waited behind another of their key and were taken up again.", func(s outbox.Stats) int64 { return s.Released })
	counter("fenced_total", "Receipts and parkings refused because another relay had taken the shard over.", func(s outbox.Stats) int64 { return s.Fenced })
	counter("takeovers_total", "Shards taken over from a relay whose lease had ended.", func(s outbox.Stats) int64 { return s.Takeovers })
	counter("lease_losses_total", "Own leases that could not be renewed in time.", func(s outbox.Stats) int64 { return s.LeaseLosses })
	counter("swept_total", "Events the safety sweep found: anything above 0 is an alarm.", func(s outbox.Stats) int64 { return s.Swept })
	counter("sweeps_total", "Safety sweeps done.", func(s outbox.Stats) int64 { return s.Sweeps })
	counter("late_total", "Events that committed after events at higher positions had been read.", func(s outbox.Stats) int64 { return s.Late })
	counter("database_errors_total", "Statements that failed.", func(s outbox.Stats) int64 { return s.DatabaseErrors })
	counter("wake_ups_total", "Notifications of new events.", func(s outbox.Stats) int64 { return s.WakeUps })
	gauge("shards", "Shards this relay owns.", func(s outbox.Stats) float64 { return float64(s.Shards) })
	gauge("held_topics", "Topics this relay sends nothing to at the moment.", func(s outbox.Stats) float64 { return float64(s.Held) })
	gauge("memory_events", "Events in memory: read, and neither receipted nor parked.", func(s outbox.Stats) float64 { return float64(s.Events) })
	gauge("memory_bytes", "Size of the events in memory.", func(s outbox.Stats) float64 { return float64(s.Bytes) })
	gauge("clock_offset_seconds", "By how much the database's clock is ahead of this process's.", func(s outbox.Stats) float64 { return s.ClockOffset.Seconds() })
	gauge("registered", "1 while this relay has a lease.", func(s outbox.Stats) float64 { return truth(s.Registered) })
	gauge("alive", "0 if the relay's loop does not move any longer.", func(s outbox.Stats) float64 { return truth(s.Alive) })
	return c
}

// Describe sends what Collect may.
func (c *RelayCollector) Describe(out chan<- *prometheus.Desc) {
	for _, n := range c.numbers {
		out <- n.description
	}
	out <- c.parked
	out <- c.batch
	out <- c.latency
	out <- c.wakeUp
}

// Collect sends the values.
func (c *RelayCollector) Collect(out chan<- prometheus.Metric) {
	s := c.stats()
	for _, n := range c.numbers {
		out <- prometheus.MustNewConstMetric(n.description, n.kind, n.value(s))
	}
	for state, n := range map[string]int64{"retrying": s.Parked, "quarantined": s.Quarantined, "blocked": s.Blocked, "scheduled": s.Scheduled} {
		out <- prometheus.MustNewConstMetric(c.parked, prometheus.CounterValue, float64(n), state)
	}
	out <- histogram(c.batch, s.BatchSizes)
	out <- histogram(c.latency, s.Latency)
	if s.Listens {
		out <- prometheus.MustNewConstMetric(c.wakeUp, prometheus.GaugeValue, truth(s.Connected))
	}
}

func histogram(description *prometheus.Desc, h outbox.Histogram) prometheus.Metric {
	buckets, upTo := make(map[float64]uint64, len(h.Bounds)), uint64(0)
	for n, bound := range h.Bounds {
		upTo += h.Counts[n]
		buckets[bound] = upTo
	}
	return prometheus.MustNewConstHistogram(description, h.Count(), h.Sum, buckets)
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
