package metrics_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/metrics"
)

func TestEffectsAndDuplicatesAreCountedByConsumer(t *testing.T) {
	c := metrics.NewConsumerCollector()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	s := &shown{t, registry}
	delivered := func(ago time.Duration) *message.Message {
		msg := message.NewMessage("a", nil)
		msg.SetContext(event.ContextWithDelivery(t.Context(), event.Delivery{Timestamp: time.Now().Add(-ago)}))
		return msg
	}
	c.Applied("mails", delivered(time.Minute))
	c.Applied("mails", delivered(-time.Hour)) // a clock that is behind
	c.Applied("mails", message.NewMessage("from nowhere", nil))
	c.Duplicate("bills", delivered(0))
	values := s.values()
	require.InDelta(t, 3, values["consumer_applied_total{consumer=mails}"], 0)
	require.InDelta(t, 2, values["consumer_published_to_effect_seconds{consumer=mails}_count"], 0)
	require.InDelta(t, 60, values["consumer_published_to_effect_seconds{consumer=mails}_sum"], 1)
	require.InDelta(t, 1, values["consumer_duplicates_total{consumer=bills}"], 0)
}
