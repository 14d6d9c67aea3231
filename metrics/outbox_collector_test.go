package metrics_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/metrics"
	"github.com/millrace-go/millrace/outbox"
)

func none() outbox.Stats { return outbox.Stats{} }

func TestPausesAreShown(t *testing.T) {
	r := newRig(t)
	s := r.relay(outbox.SubscriberConfig{}, nil)
	require.NoError(t, r.operator().Pause(t.Context(), outbox.Pause{Topic: "orders", Reason: "a test"}, false))
	require.NoError(t, r.operator().Pause(t.Context(), outbox.Pause{AggregateType: "order", AggregateID: "1", Reason: "a test"}, false))
	r.commit("orders", events("a")...)
	s.become(map[string]float64{"outbox_paused{kind=topic}": 1, "outbox_paused{kind=aggregate}": 1, "outbox_held_topics": 1, "relay_held_topics": 1})
	s.rise("outbox_topic_held_seconds{reason=paused,topic=orders}")
}

func TestTakeoversWithoutProgressAreShown(t *testing.T) {
	r := newRig(t)
	r.execute(`update millrace.outbox_shard set takeovers = 3 where shard = 7`)
	r.show(none).become(map[string]float64{"outbox_takeovers_without_progress": 3})
}

// However many topics are held, the number of series has an end.
func TestHeldTopicsAreNamedUpToALimit(t *testing.T) {
	r := newRig(t)
	r.execute(`insert into millrace.outbox_lane (shard, topic, frontier_snapshot, frontier_position, held, reason, since)
		select shard, 't' || n, '1:1:', 0, true, 'stalled', millrace.clock() - n * interval '1 min' from generate_series(1, 60) n, generate_series(0, 3) shard`)
	values := r.show(none).values()
	named := 0
	for name := range values {
		if strings.HasPrefix(name, "outbox_topic_held_seconds{") {
			named++
		}
	}
	require.Equal(t, 50, named)
	require.InDelta(t, 60, values["outbox_held_topics"], 0)
	require.Contains(t, values, "outbox_topic_held_seconds{reason=stalled,topic=t60}", "the longest held")
}

func TestWithoutItsDatabaseOnlyThatIsShown(t *testing.T) {
	r := newRig(t)
	s := r.show(none)
	require.NoError(t, r.db.Close())
	values := s.values()
	require.InDelta(t, 0, values["database_up"], 0)
	require.Contains(t, values, "relay_sent_total")
	for name := range values {
		require.NotContains(t, name, "outbox_")
	}
}

func TestBadConfigurationsAreNamed(t *testing.T) {
	db, _ := testkit.Database(t)
	_, err := metrics.NewOutboxCollector(db, metrics.OutboxConfig{Timeout: -1, MaxTopics: -1})
	require.ErrorContains(t, err, "Timeout -1ns is negative\nMaxTopics -1 is negative")
	_, err = metrics.NewOutboxCollector(nil, metrics.OutboxConfig{})
	require.ErrorContains(t, err, "db is nil")
}
