package metrics

import (
	"time"

	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
)

// ConsumerCollector exports what consumers did. Its methods are hooks: of a pipeline,
//
//	pipeline.Config{OnApplied: c.Applied, OnDuplicate: c.Duplicate}
//
// or, in functions that name the consumer, of middleware.Dedup. They are safe for concurrent use.
type ConsumerCollector struct {
	effect     *prometheus.HistogramVec
	applied    *prometheus.CounterVec
	duplicates *prometheus.CounterVec
}

// NewConsumerCollector makes a collector for all consumers of a process.
func NewConsumerCollector() *ConsumerCollector {
	consumer := []string{"consumer"}
	return &ConsumerCollector{
		effect: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "millrace_consumer_published_to_effect_seconds",
			Help:    "From a record's timestamp to the commit of its effect, without replays.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}, consumer),
		applied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millrace_consumer_applied_total", Help: "Events whose effect was committed.",
		}, consumer),
		duplicates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millrace_consumer_duplicates_total", Help: "Events acknowledged without being handled, because they had been.",
		}, consumer),
	}
}

// Applied counts an event whose effect has just been committed. Its age is by this process's clock and the record's timestamp,
// which a relay sets when it sends: together with millrace_relay_commit_to_published_seconds that is the whole way.
func (c *ConsumerCollector) Applied(consumer string, msg *message.Message) {
	c.applied.WithLabelValues(consumer).Inc()
	if _, replayed := inbox.ReplayedFromContext(msg.Context()); replayed {
		return
	}
	sent, ok := wkafka.MessageTimestampFromCtx(msg.Context())
	if d, ours := event.DeliveryFromContext(msg.Context()); ours {
		sent, ok = d.Timestamp, true
	}
	if ok && !sent.IsZero() {
		c.effect.WithLabelValues(consumer).Observe(max(0, time.Since(sent).Seconds()))
	}
}

// Duplicate counts an event that took effect before.
func (c *ConsumerCollector) Duplicate(consumer string, _ *message.Message) {
	c.duplicates.WithLabelValues(consumer).Inc()
}

// Describe sends what Collect may.
func (c *ConsumerCollector) Describe(out chan<- *prometheus.Desc) {
	c.effect.Describe(out)
	c.applied.Describe(out)
	c.duplicates.Describe(out)
}

// Collect sends the values.
func (c *ConsumerCollector) Collect(out chan<- prometheus.Metric) {
	c.effect.Collect(out)
	c.applied.Collect(out)
	c.duplicates.Collect(out)
}
