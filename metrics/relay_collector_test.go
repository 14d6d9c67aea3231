package metrics_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

func TestWhatIsSentIsCounted(t *testing.T) {
	r := newRig(t)
	r.commit("orders", events("a", "b", "c")...)
	s := r.relay(outbox.SubscriberConfig{SweepInterval: 50 * time.Millisecond}, nil)
	s.become(map[string]float64{
		"relay_sent_total": 3, "relay_publish_attempts_total": 3, "relay_acknowledged_total": 3, "relay_retries_total": 0,
		"relay_batch_events_sum": 3, "relay_commit_to_published_seconds_count": 3,
		"relay_memory_events": 0, "relay_memory_bytes": 0, "relay_shards": 64, "relay_registered": 1, "relay_alive": 1,
		"outbox_pending": 0, "outbox_oldest_pending_seconds": 0, "outbox_live_relays": 1, "outbox_shards": 64, "outbox_unowned_shards": 0,
		"database_up": 1, "relay_database_errors_total": 0,
	})
	s.rise("relay_sweeps_total", "relay_batch_events_count")
	values := s.values()
	require.Less(t, values["relay_commit_to_published_seconds_sum"], 3*20.0)
	require.InDelta(t, 0, values["relay_clock_offset_seconds"], 1)
	require.NotContains(t, values, "relay_wake_up_connected", "it was not asked to listen")
}

// The database's clock and the relay's are two: what is measured between them is not a latency.
func TestLatencyIsByTheDatabasesClock(t *testing.T) {
	r := newRig(t)
	r.execute(`create or replace function millrace.clock() returns timestamptz language sql as 'select clock_timestamp() - interval ''2 h'''`)
	s := r.relay(outbox.SubscriberConfig{}, nil)
	r.execute(`insert into millrace.outbox (event_id, topic, created_at) values ('a', 'orders', millrace.clock())`)
	s.become(map[string]float64{"relay_commit_to_published_seconds_count": 1})
	values := s.values()
	require.InDelta(t, -7200, values["relay_clock_offset_seconds"], 5)
	require.Less(t, values["relay_commit_to_published_seconds_sum"], 20.0)
}

func TestRefusedEventsAndThoseBehindThemAreCounted(t *testing.T) {
	r := newRig(t)
	r.set(func(_, id string) error {
		if id == "bad" {
			return errTooLarge
		}
		return nil
	})
	s := r.relay(outbox.SubscriberConfig{MaxAttempts: 2}, nil)
	r.commit("orders", keyed("bad", "behind")...)
	s.become(map[string]float64{
		"relay_refused_total": 2, "relay_failed_batches_total": 2, "relay_retries_total": 1, "relay_unknown_outcomes_total": 0,
		"relay_parked_total{state=retrying}": 1, "relay_parked_total{state=quarantined}": 1, "relay_parked_total{state=blocked}": 1,
		"outbox_parked{state=quarantined}": 1, "outbox_parked{state=blocked}": 1, "outbox_parked{state=retrying}": 0,
		"outbox_pending": 0,
	})
	s.rise("outbox_oldest_parked_seconds{state=quarantined}", "outbox_oldest_parked_seconds{state=blocked}")
	_, err := r.operator().Discard(t.Context(), outbox.Operation{EventIDs: []string{"bad"}, Reason: "a test"})
	require.NoError(t, err)
	s.become(map[string]float64{
		"relay_released_total": 1, "relay_sent_total": 1,
		"outbox_parked{state=discarded}": 1, "outbox_parked{state=quarantined}": 0, "outbox_parked{state=blocked}": 0,
	})
	s.rise("outbox_oldest_parked_seconds{state=discarded}")
}

func TestARefusedEventThatIsTriedAgainWaitsInItsState(t *testing.T) {
	r := newRig(t)
	r.execute(`insert into millrace.outbox_parked (shard, position, event_id, topic, state, blocks, due_at)
		values (0, 1, 'r', 'orders', 'retrying', false, millrace.clock() + interval '1 h')`)
	s := r.show(func() outbox.Stats { return outbox.Stats{} })
	s.become(map[string]float64{"outbox_parked{state=retrying}": 1, "outbox_live_relays": 0, "outbox_unowned_shards": 64})
	s.rise("outbox_oldest_parked_seconds{state=retrying}")
}

// An error that proves nothing is neither a refusal nor an acknowledgement.
func TestUnknownOutcomesAndRetriesAreCounted(t *testing.T) {
	r := newRig(t)
	r.set(func(string, string) error { return errAway })
	s := r.relay(outbox.SubscriberConfig{}, nil)
	r.commit("orders", events("a")...)
	s.rise("relay_unknown_outcomes_total", "relay_retries_total", "relay_failed_batches_total", "outbox_oldest_pending_seconds")
	s.become(map[string]float64{"outbox_pending": 1, "relay_memory_events": 1, "relay_acknowledged_total": 0, "relay_refused_total": 0})
	s.rise("relay_memory_bytes")
	r.set(nil)
	s.become(map[string]float64{"relay_sent_total": 1, "relay_memory_events": 0})
	v := s.values()
	require.InDelta(t, v["relay_publish_attempts_total"], v["relay_unknown_outcomes_total"]+1, 0)
	require.InDelta(t, v["relay_publish_attempts_total"], v["relay_retries_total"]+1, 0)
}

func TestATopicThatTakesNothingIsHeldAndNamed(t *testing.T) {
	r := newRig(t)
	r.set(func(topic, _ string) error {
		if topic == "absent" {
			return errNoTopic
		}
		return nil
	})
	s := r.relay(outbox.SubscriberConfig{}, nil)
	r.commit("absent", events("a")...)
	s.rise("relay_unavailable_total", "relay_held_topics", "outbox_topic_held_seconds{reason=unavailable,topic=absent}")
	s.become(map[string]float64{"outbox_held_topics": 1, "outbox_pending": 1, "relay_unknown_outcomes_total": 0})
	r.set(nil)
	s.become(map[string]float64{"outbox_held_topics": 0, "relay_held_topics": 0, "relay_sent_total": 1})
	require.NotContains(t, s.values(), "outbox_topic_held_seconds{reason=unavailable,topic=absent}")
}

func TestScheduledEventsAreCountedAndAreNoLatency(t *testing.T) {
	r := newRig(t)
	s := r.relay(outbox.SubscriberConfig{}, nil)
	msg := events("later")[0]
	msg.Metadata[event.DeliverAtKey] = time.Now().Add(2 * time.Second).Format(time.RFC3339Nano)
	r.commit("orders", msg)
	s.become(map[string]float64{"relay_parked_total{state=scheduled}": 1, "outbox_parked{state=scheduled}": 1, "outbox_pending": 0})
	s.become(map[string]float64{
		"relay_sent_total": 1, "outbox_parked{state=scheduled}": 0, "outbox_oldest_parked_seconds{state=scheduled}": 0,
		"relay_commit_to_published_seconds_count": 0,
	})
}

func TestTakeoversLostLeasesAndFencedWritesAreCounted(t *testing.T) {
	r := newRig(t)
	reached, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	openGate := sync.OnceFunc(func() { close(open) })
	t.Cleanup(openGate)
	r.set(func(_, id string) error {
		if id == "slow" {
			once.Do(func() { close(reached) })
			<-open
		}
		return nil
	})
	first := r.relay(outbox.SubscriberConfig{Name: "first", Lease: 2 * time.Second}, nil)
	r.commit("orders", events("slow")...)
	<-reached
	r.execute(`update millrace.outbox_relay set lease_until = millrace.clock() - interval '1 s' where name = 'first'`)
	second := r.relay(outbox.SubscriberConfig{Name: "second"}, nil)
	second.rise("relay_takeovers_total")
	openGate()
	first.rise("relay_fenced_total", "relay_lease_losses_total")
	first.become(map[string]float64{"relay_sent_total": 0})
}

func TestLateEventsAreCounted(t *testing.T) {
	r := newRig(t)
	s := r.relay(outbox.SubscriberConfig{}, nil)
	tx, err := r.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	// Of every shard, so that later events are behind them.
	_, err = tx.ExecContext(t.Context(), `insert into millrace.outbox (event_id, topic, partition_key) select 'late-' || n, 'orders', 'k' || n from generate_series(1, 300) n`)
	require.NoError(t, err)
	r.execute(`insert into millrace.outbox (event_id, topic, partition_key) select 'early-' || n, 'orders', 'k' || n from generate_series(1, 300) n`)
	s.become(map[string]float64{"relay_sent_total": 300})
	require.NoError(t, tx.Commit())
	s.become(map[string]float64{"relay_late_total": 300, "relay_sent_total": 600, "relay_swept_total": 0})
}

func TestSweptEventsAreCounted(t *testing.T) {
	r := newRig(t)
	s := r.relay(outbox.SubscriberConfig{SweepInterval: 20 * time.Millisecond}, nil)
	r.commit("orders", events("first")...)
	s.become(map[string]float64{"relay_sent_total": 1})
	tx, err := r.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), `insert into millrace.outbox (event_id, topic, partition_key, xid)
		select 'forged-' || n, 'orders', 'key-' || n, '9000000000'::xid8 from generate_series(1, 300) n`)
	require.NoError(t, err)
	r.execute(`insert into millrace.outbox (event_id, topic, partition_key) select 'e-' || n, 'orders', 'key-' || n from generate_series(1, 300) n`)
	s.become(map[string]float64{"relay_sent_total": 301})
	require.NoError(t, tx.Commit())
	s.become(map[string]float64{"relay_sent_total": 601})
	s.rise("relay_swept_total")
}

func TestDatabaseErrorsAreCounted(t *testing.T) {
	r := newRig(t)
	s := r.relay(outbox.SubscriberConfig{}, nil)
	s.become(map[string]float64{"relay_registered": 1})
	r.execute(`alter table millrace.outbox_receipt rename to elsewhere`)
	r.commit("orders", events("a")...)
	s.rise("relay_database_errors_total")
	r.execute(`alter table millrace.elsewhere rename to outbox_receipt`)
	s.become(map[string]float64{"relay_sent_total": 1})
}

func TestWakeUpsAndTheirConnectionAreShown(t *testing.T) {
	r := newRig(t)
	s := r.relay(outbox.SubscriberConfig{DirectURL: r.dsn}, nil)
	s.become(map[string]float64{"relay_wake_up_connected": 1})
	r.commit("orders", events("a")...)
	s.rise("relay_wake_ups_total")
	s.until(func(values map[string]float64) bool {
		r.execute(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'millrace wake-up'`)
		connected, ok := values["relay_wake_up_connected"]
		return ok && connected == 0
	}, "lost")
	s.become(map[string]float64{"relay_wake_up_connected": 1})
}
