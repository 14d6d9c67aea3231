package forwarder_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// A backfill that copies rows with their transaction ids, logical replication and hand repair write ids that the reader
// has passed already. What is below its frontier then only the sweep can find.
func TestEventsWithForgedTransactionIdsAreSweptUpAndSentOnce(t *testing.T) {
	for name, insert := range map[string]string{
		"backfill with the ids of sent rows": `insert into millrace.outbox (event_id, topic, partition_key, xid)
			select 'forged-' || n, 'orders', 'key-' || n, (select xid from millrace.outbox order by xid limit 1) from generate_series(1, $1) n`,
		"ids from the far future": `insert into millrace.outbox (event_id, topic, partition_key, xid)
			select 'forged-' || n, 'orders', 'key-' || n, '9000000000'::xid8 from generate_series(1, $1) n`,
	} {
		t.Run(name, func(t *testing.T) {
			db := testkit.Migrated(t)
			wire := &lanes{}
			config := quick()
			config.SweepInterval = instant
			f := run(t, db, wire, config)
			publish(t, db, "orders", orderEvent(1, 1))
			settled(t, db)

			const forged = 2500 // more than a sweep returns at once
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), insert, forged)
			require.NoError(t, err)
			publish(t, db, "orders", firstVersions(10, 209)...) // lifts the frontier of most shards above the forged events
			settled(t, db)
			require.Zero(t, f.Stats().Swept)
			require.NoError(t, tx.Commit())

			settled(t, db)
			require.Len(t, wire.ids(), 1+200+forged)
			once(t, &wire.recorder)
			require.Greater(t, f.Stats().Swept, int64(forged/2))
		})
	}
}

// Events at new positions are found whatever transaction id they bear, without the sweep.
func TestForgedTransactionIdsAtNewPositionsNeedNoSweep(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	f := run(t, db, wire, quick())
	for _, xid := range []int64{3, 9_000_000_000} {
		execute(t, db, `insert into millrace.outbox (event_id, topic, xid) values ($1, 'orders', $2::text::xid8)`, fmt.Sprint("e", xid), xid)
	}
	settled(t, db)
	require.Len(t, wire.ids(), 2)
	require.Zero(t, f.Stats().Swept)
}

// The sweep is an alarm: events that are merely late, however late, must not set it off.
func TestLateCommitsDoNotSetOffTheSweep(t *testing.T) {
	db := testkit.Migrated(t)
	db.SetMaxOpenConns(40)
	wire := &lanes{}
	config := quick()
	config.SweepInterval = time.Millisecond
	f := run(t, db, wire, config)
	committed := randomWriters(t, db, 20, 30)
	settled(t, db)
	require.Len(t, wire.ids(), len(committed))
	require.NotZero(t, f.Stats().Late)
	require.Zero(t, f.Stats().Swept)
}

// The frontier an earlier owner left behind is not trusted blindly: whenever shards are claimed, everything below it is looked
// through once, not only what comes after what was looked through before.
func TestSweepAfterAClaimBeginsAtTheLowestPosition(t *testing.T) {
	db := testkit.Migrated(t)
	const other = `00000000-0000-0000-0000-000000000001`
	execute(t, db, `insert into millrace.outbox_relay (relay_id, name, lease_ms, lease_until) values ($1, 'other', 3600000, millrace.clock() + interval '1 h')`, other)
	execute(t, db, `update millrace.outbox_shard set relay_id = $1, claim_id = $1, claim_version = 1 where shard < 32`, other)
	const events = 2500 // more in each half of the shards than one sweep returns
	execute(t, db, insertFirstVersions, events)
	execute(t, db, `update millrace.outbox_shard set frontier_position = 10000, frontier_snapshot = pg_current_snapshot(), anchor = millrace.anchor()`)
	execute(t, db, `select setval('millrace.outbox_position_seq', 10000)`)
	wire := &lanes{}
	config := short()
	config.SweepInterval = time.Second // without a claim it would be a minute before a sweep begins anew
	f := run(t, db, wire, config)
	free := scan[int](t, db, `select count(*) from millrace.outbox where shard >= 32`)
	eventually(t, func() bool { return receipts(t, db) == free }, "nothing is swept")
	require.Never(t, func() bool { return receipts(t, db) != free }, 3*config.SweepInterval, 50*time.Millisecond, "the sweep has come to its end")
	execute(t, db, `update millrace.outbox_relay set lease_until = millrace.clock() where relay_id = $1`, other)
	settled(t, db)
	require.Equal(t, events, inOrder(t, &wire.recorder))
	require.EqualValues(t, events, f.Stats().Swept)
}
