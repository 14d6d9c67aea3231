package outbox_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

func TestOperatorByFilterChangesWhatFitsAndNoOtherNumber(t *testing.T) {
	db := testkit.Migrated(t)
	o := newOperator(t, db, "ann")
	keyed(t, db, "a", "a1", "a2")
	keyed(t, db, "b", "b1")
	keyed(t, db, "c", "c1")
	park(t, db, "a1", "quarantined", true)
	park(t, db, "a2", "blocked", true)
	park(t, db, "b1", "retrying", true)
	park(t, db, "c1", "quarantined", true)
	three, two := 3, 2
	all := outbox.Operation{Reason: "mended", Expect: &two}
	before := everything(t, db)
	_, err := o.Retry(t.Context(), all)
	require.ErrorIs(t, err, outbox.ErrUnexpectedCount)
	require.ErrorContains(t, err, "3 would change, not 2")
	require.Equal(t, before, everything(t, db))

	all.Expect = &three
	changes, err := o.Retry(t.Context(), all)
	require.NoError(t, err)
	require.Len(t, changes, 4)
	require.ErrorIs(t, changes[1].Err, outbox.ErrWrongState)
	require.Equal(t, 3, scanOne[int](t, db, "select count(*) from millrace.outbox_parked where state = 'retrying' and attempts = 0"))

	limited := outbox.Operation{Matching: outbox.ParkedFilter{Limit: 1, State: "retrying"}}
	changes, err = o.Skip(t.Context(), limited)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Equal(t, "a1", changes[0].EventID)
	changes, err = o.Retry(t.Context(), outbox.Operation{EventIDs: []string{}})
	require.NoError(t, err)
	require.Empty(t, changes, "no events are not all events")
}

func TestOperatorListsByEveryFilterPageByPage(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		o := newOperator(t, db, "ann")
		keyed(t, db, "a", "a1", "a2", "a3")
		keyed(t, db, "b", "b1")
		write(t, db, func(p *outbox.Publisher) error { return p.Publish("mails", named("m1")) })
		park(t, db, "a1", "quarantined", true)
		park(t, db, "a2", "blocked", true)
		park(t, db, "a3", "blocked", true)
		park(t, db, "b1", "retrying", true)
		park(t, db, "m1", "scheduled", false)
		exec(t, db, "update millrace.outbox_parked set owner = 'bob', error_class = 'permanent', created_at = created_at - interval '1 hour' where event_id = 'b1'")
		list := func(filter outbox.ParkedFilter) (ids []string) {
			page, err := o.List(t.Context(), filter)
			require.NoError(t, err)
			for _, p := range page {
				ids = append(ids, p.EventID)
			}
			return ids
		}
		require.Equal(t, []string{"a1", "a2", "a3", "b1", "m1"}, list(outbox.ParkedFilter{}))
		require.Equal(t, []string{"a2", "a3"}, list(outbox.ParkedFilter{State: "blocked"}))
		require.Equal(t, []string{"m1"}, list(outbox.ParkedFilter{Topic: "mails"}))
		require.Equal(t, []string{"b1"}, list(outbox.ParkedFilter{AggregateType: "order", AggregateID: "b"}))
		require.Equal(t, []string{"b1"}, list(outbox.ParkedFilter{Owner: "bob"}))
		require.Equal(t, []string{"b1"}, list(outbox.ParkedFilter{ErrorClass: "permanent"}))
		require.Equal(t, []string{"b1"}, list(outbox.ParkedFilter{OlderThan: time.Minute}))
		page, err := o.List(t.Context(), outbox.ParkedFilter{Limit: 2})
		require.NoError(t, err)
		require.Equal(t, "a1", page[0].EventID)
		require.EqualValues(t, 2, page[0].Followers)
		require.Equal(t, "a1", page[1].WaitsFor)
		require.Zero(t, page[1].Followers)
		require.Equal(t, []string{"a3", "b1"}, list(outbox.ParkedFilter{Limit: 2, After: page[1].Entry}))
		for _, filter := range []outbox.ParkedFilter{{State: "sent"}, {Limit: -1}, {Limit: outbox.MaxParked + 1}, {AggregateID: "a"}, {Topic: "\x00"}, {OlderThan: -1}} {
			_, err := o.List(t.Context(), filter)
			require.Error(t, err)
		}
	})
}

func TestOperatorShowsOneEventInEveryState(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		o := newOperator(t, db, "ann")
		keyed(t, db, "a", "a1", "a2", "a3", "sent", "pending")
		park(t, db, "a1", "quarantined", true)
		park(t, db, "a2", "blocked", true)
		park(t, db, "a3", "blocked", true)
		receipt(t, db, "sent")
		d, err := o.Show(t.Context(), "a2", false)
		require.NoError(t, err)
		require.Equal(t, "blocked", d.State)
		require.Equal(t, "a1", d.Parked.WaitsFor)
		require.Equal(t, []int64{1, 1}, []int64{d.Ahead, d.Behind})
		require.Equal(t, "red", d.Metadata["colour"])
		require.Equal(t, "a2", d.Metadata[event.IDKey])
		require.EqualValues(t, 2, *d.PayloadBytes)
		require.Nil(t, d.Payload, "it was not asked for")
		d, err = o.Show(t.Context(), "a1", true)
		require.NoError(t, err)
		require.EqualValues(t, 2, d.Parked.Followers)
		require.Equal(t, "{}", string(d.Payload))
		require.Equal(t, []any{"publish", "transient", "first", "last"}, []any{d.Parked.Stage, d.Parked.ErrorClass, d.Parked.FirstError, d.Parked.LastError})

		d, err = o.Show(t.Context(), "sent", false)
		require.NoError(t, err)
		require.Equal(t, "sent", d.State)
		require.Nil(t, d.Parked)
		require.Equal(t, []any{"orders", int32(1), int64(7), 5}, []any{d.Receipt.Topic, *d.Receipt.Partition, *d.Receipt.Offset, d.Receipt.Attempts})
		d, err = o.Show(t.Context(), "pending", false)
		require.NoError(t, err)
		require.Equal(t, "pending", d.State)
		live(t, db)
		d, err = o.Show(t.Context(), "pending", false)
		require.NoError(t, err)
		require.Equal(t, "claimed", d.State)
		for _, id := range []string{"unknown", "nul\x00", ""} {
			_, err = o.Show(t.Context(), id, false)
			require.ErrorIs(t, err, outbox.ErrNotFound)
		}
	})
}

// live has a living relay own all shards.
func live(t *testing.T, db *sql.DB) {
	t.Helper()
	exec(t, db, `insert into millrace.outbox_relay (relay_id, name, lease_ms, lease_until) values (gen_random_uuid(), 'r1', 10000, millrace.clock() + interval '10 s')`)
	exec(t, db, `update millrace.outbox_shard set relay_id = (select relay_id from millrace.outbox_relay), claim_id = gen_random_uuid(), claim_version = 1`)
}

// settle stores frontiers: everything up to now is handed out.
func settle(t *testing.T, db *sql.DB) {
	t.Helper()
	exec(t, db, `update millrace.outbox_shard s set frontier_snapshot = pg_current_snapshot(), frontier_position = coalesce((select max(position) from millrace.outbox), 0)`)
}

// A figure that misses events is worse than none, and so is one that reads the table to be sure.
func TestOperatorStatsMissNoEventAndCountNoneTwice(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		o := newOperator(t, db, "ann")
		totals := func() [8]int64 {
			t.Helper()
			x, err := o.Stats(t.Context())
			require.NoError(t, err)
			return [8]int64{x.Pending, x.Claimed, x.Retrying, x.Blocked, x.Quarantined, x.Scheduled, x.Sent, x.Discarded}
		}
		publish := func(topic, id string) {
			write(t, db, func(p *outbox.Publisher) error { return p.Publish(topic, named(id, event.PartitionKey("k"))) })
		}
		require.Equal(t, [8]int64{}, totals())
		publish("held", "h0")
		publish("orders", "p1")
		require.Equal(t, [8]int64{2}, totals())
		live(t, db)
		require.Equal(t, [8]int64{0, 2}, totals())

		// One commits late, below the frontier.
		late, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, newPublisher(t, late).Publish("orders", named("late")))
		require.NoError(t, newPublisher(t, late).Publish("held", named("late held")))
		receipt(t, db, "h0")
		exec(t, db, `insert into millrace.outbox_lane (shard, topic, frontier_snapshot, frontier_position, held, reason, last_error, failures)
			select shard, 'held', pg_current_snapshot(), (select max(position) from millrace.outbox), true, 'unavailable', 'no such topic', 3 from millrace.outbox_shard`)
		publish("held", "h1")
		receipt(t, db, "p1")
		for n, state := range []string{"retrying", "blocked", "quarantined", "scheduled", "discarded"} {
			id := fmt.Sprint("x", n)
			publish("orders", id)
			park(t, db, id, state, state != "scheduled" && state != "discarded")
		}
		settle(t, db)
		require.Equal(t, [8]int64{1, 0, 1, 1, 1, 1, 2, 1}, totals(), "h1 waits for its topic")
		require.NoError(t, late.Commit())
		require.Equal(t, [8]int64{2, 1, 1, 1, 1, 1, 2, 1}, totals())
		publish("held", "h2")
		publish("orders", "p2")
		publish("orders", "x")
		park(t, db, "x", "retrying", true)
		require.Equal(t, [8]int64{3, 2, 2, 1, 1, 1, 2, 1}, totals())

		exec(t, db, `update millrace.outbox_parked set created_at = created_at - interval '1 hour' where state = 'blocked'`)
		require.NoError(t, o.Pause(t.Context(), outbox.Pause{Topic: "orders", Reason: "why"}, false))
		x, err := o.Stats(t.Context())
		require.NoError(t, err)
		require.InDelta(t, time.Hour, x.Oldest["blocked"], float64(time.Minute))
		require.Less(t, x.Oldest["retrying"], time.Minute)
		require.Positive(t, x.OldestPending)
		require.Len(t, x.Paused, 1)
		require.Len(t, x.Held, 1)
		require.Equal(t, []any{"held", "unavailable", true, "no such topic", 3}, []any{x.Held[0].Topic, x.Held[0].Reason, x.Held[0].Held, x.Held[0].LastError, x.Held[0].Failures})
	})
}

func TestOperatorTellsHowShardsAndRelaysAreDoing(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		o := newOperator(t, db, "ann")
		live(t, db)
		exec(t, db, `insert into millrace.outbox_relay (relay_id, name, lease_ms, lease_until) values (gen_random_uuid(), 'r2', 10000, millrace.clock() - interval '1 s')`)
		keyed(t, db, "a", "a1", "a2", "a3", "a4")
		receipt(t, db, "a1")
		park(t, db, "a2", "quarantined", true)
		number := scanOne[int](t, db, "select shard from millrace.outbox where event_id = 'a1'")
		exec(t, db, "update millrace.outbox_shard set takeovers = 2, suspect_tries = 1, suspect = (select position from millrace.outbox where event_id = 'a3') where shard = $1", number)
		relays, err := o.Relays(t.Context())
		require.NoError(t, err)
		require.Len(t, relays, 2)
		require.Equal(t, []any{"r1", true, "r2", false}, []any{relays[0].Name, relays[0].Live, relays[1].Name, relays[1].Live})
		require.InDelta(t, 5*time.Second, relays[0].LeaseRemaining, float64(5*time.Second))
		require.Negative(t, relays[1].LeaseRemaining)
		shards, err := o.Shards(t.Context())
		require.NoError(t, err)
		require.Len(t, shards, relays[0].Shards)
		s := shards[number]
		require.InDelta(t, 0.1, s.SentPerSecond, 0.001)
		require.Equal(t, outbox.ShardStatus{
			Shard: int16(number), RelayID: relays[0].RelayID, RelayName: "r1", ClaimVersion: 1, Lag: 2, SentPerSecond: s.SentPerSecond,
			Takeovers: 2, Suspect: "a3", SuspectTries: 1, LastError: "last",
		}, s)

		// Many more are not counted one by one, and the rate is that of the time they took.
		exec(t, db, `insert into millrace.outbox (event_id, topic, partition_key) select 'n' || n, 'orders', 'a' from generate_series(1, 3000) n`)
		exec(t, db, `insert into millrace.outbox_receipt (shard, position, attempts, claim_version, sent_at)
			select shard, position, 1, 1, millrace.clock() - (3000 - substr(event_id, 2)::int) * interval '1 ms' from millrace.outbox where event_id ~ '^n'`)
		shards, err = o.Shards(t.Context())
		require.NoError(t, err)
		require.True(t, shards[number].LagAtLeast)
		require.EqualValues(t, 2, shards[number].Lag)
		require.Greater(t, shards[number].SentPerSecond, 100.0)
		require.LessOrEqual(t, shards[number].SentPerSecond, 1002.0)
	})
}
