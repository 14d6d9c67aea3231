package forwarder_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

// runsOnce runs a limited run that has to end by itself.
func runsOnce(t *testing.T, f *forwarder.Forwarder, limit int) (sent int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	sent, err = f.RunOnce(ctx, limit)
	require.NoError(t, ctx.Err(), "the run does not end")
	return sent, err
}

// A run ends when each event has been tried once, whatever is parked, due, scheduled or paused.
func TestALimitedRunTriesParkedEventsOnceAndEnds(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		publish(t, db, "orders", versions(1, 1, 3)...)
		publish(t, db, "orders", versions(2, 1, 2)...)
		publish(t, db, "paused", versions(3, 1, 2)...)
		execute(t, db, `insert into millrace.outbox (event_id, topic, partition_key, deliver_at) values ('later', 'orders', '4', millrace.clock() + interval '1 h')`)
		o := operator(t, db)
		require.NoError(t, o.Pause(t.Context(), topicPaused("paused"), false))
		wire.set(refusing("order-1-1"))
		f := newForwarder(t, db, publisher, newConfig(quick()))
		sent, err := runsOnce(t, f, 100)
		require.ErrorIs(t, err, tooLarge)
		require.Equal(t, 2, sent)
		require.Equal(t, 1, scan[int](t, db, `select attempts from millrace.outbox_parked where event_id = 'order-1-1'`))
		require.Equal(t, 2, parkedRows(t, db, "blocked"))
		require.Equal(t, "scheduled", parkedState(t, db, "later"))

		due := time.NewTimer(quick().MaxHold)
		<-due.C
		_, err = runsOnce(t, f, 100)
		require.ErrorIs(t, err, tooLarge)
		require.Equal(t, 2, scan[int](t, db, `select attempts from millrace.outbox_parked where event_id = 'order-1-1'`))

		wire.set(nil)
		require.NoError(t, o.Resume(t.Context(), topicPaused("paused"), false))
		due.Reset(quick().MaxHold)
		<-due.C
		sent, err = runsOnce(t, f, 100)
		require.NoError(t, err)
		require.Equal(t, 5, sent, "the head, its followers, and what was paused")
		allInOrder(t, wire, 1, 3)
		allInOrder(t, wire, 3, 2)
	})
}

// More is due, or may go on, than the limit allows.
func TestALimitStopsARunThatWouldGoOnWithParkedEvents(t *testing.T) {
	db := testkit.Migrated(t)
	execute(t, db, `insert into millrace.outbox (event_id, topic, partition_key, deliver_at)
		select 'scheduled-' || n, 'orders', n, millrace.clock() + interval '300 ms' from generate_series(1, 5) n`)
	publish(t, db, "orders", versions(9, 1, 6)...)
	wire := &lanes{}
	wire.set(refusing("order-9-1"))
	f := newForwarder(t, db, wire, newConfig(quick()))
	_, err := runsOnce(t, f, 100)
	require.ErrorIs(t, err, tooLarge)
	wire.set(nil)
	due := time.NewTimer(400 * time.Millisecond)
	<-due.C
	total := 0
	for total < 11 {
		sent, err := runsOnce(t, f, 2)
		require.NoError(t, err)
		require.Positive(t, sent)
		require.LessOrEqual(t, sent, 2)
		total += sent
	}
	require.Zero(t, pending(t, db))
	allInOrder(t, &wire.recorder, 9, 6)
	once(t, &wire.recorder)
}

// What an operator has sent elsewhere waits for that topic, and nobody waits for it in a loop.
func TestAFollowerSentToAPausedTopicDoesNotKeepARunGoing(t *testing.T) {
	db := testkit.Migrated(t)
	publish(t, db, "orders", versions(1, 1, 3)...)
	wire := &lanes{}
	wire.set(refusing("order-1-1"))
	f := newForwarder(t, db, wire, newConfig(quick()))
	_, err := runsOnce(t, f, 100)
	require.ErrorIs(t, err, tooLarge)
	o := operator(t, db)
	changes, err := o.Edit(t.Context(), outbox.Edit{Topic: "elsewhere"}, of("order-1-2"))
	done(t, changes, err)
	require.NoError(t, o.Pause(t.Context(), topicPaused("elsewhere"), false))
	changes, err = o.Discard(t.Context(), of("order-1-1"))
	done(t, changes, err)
	_, err = runsOnce(t, f, 100)
	require.NoError(t, err)
	require.NoError(t, o.Resume(t.Context(), topicPaused("elsewhere"), false))
	_, err = runsOnce(t, f, 100)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"order-1-2", "order-1-3"}, wire.ids(), "to topics of their own")
}
