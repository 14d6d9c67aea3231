package forwarder_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

const (
	bulk      = 6000 // more late events than one read returns
	bulkTotal = 300 + bulk + 3
)

// insertFirstVersions writes the first events of the orders 1 to $1.
const insertFirstVersions = `insert into millrace.outbox
	(event_id, topic, aggregate_type, aggregate_id, aggregate_version, partition_key, payload)
	select format('order-%s-1', n), 'orders', 'order', n, 1, n, 'x' from generate_series(1, $1) n`

// bulkLate commits a big transaction late: the frontier has passed its positions, thanks to other writers. Its last event is
// version 1 of an aggregate, version 2 of which then comes as a new event. At a position
// above all of them a small one commits as late.
func bulkLate(t *testing.T, db *sql.DB, relay func()) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), insertFirstVersions, bulk)
	require.NoError(t, err)
	small, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = small.ExecContext(t.Context(), `insert into millrace.outbox (event_id, topic, aggregate_type, aggregate_id, aggregate_version, partition_key)
		values ('order-7000-1', 'orders', 'order', '7000', 1, '7000')`)
	require.NoError(t, err)
	publish(t, db, "orders", firstVersions(bulk+1, bulk+300)...)
	relay()
	require.Equal(t, 300, receipts(t, db))
	require.NoError(t, small.Commit())
	require.NoError(t, tx.Commit())
	publish(t, db, "orders", orderEvent(bulk, 2), orderEvent(1, 2))
}

func TestMoreLateEventsThanOneReadReturnsComeBeforeNewOnes(t *testing.T) {
	for name, limit := range map[string]func(*outbox.SubscriberConfig){
		"limited by rows":   func(*outbox.SubscriberConfig) {},
		"limited by bytes":  func(c *outbox.SubscriberConfig) { c.MaxUnsettledBytes = 300_000 },
		"limited by memory": func(c *outbox.SubscriberConfig) { c.MaxUnsettled = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			db := testkit.Migrated(t)
			wire := &lanes{}
			config := quick()
			limit(&config)
			bulkLate(t, db, func() {
				sent, err := newForwarder(t, db, wire, newConfig(config)).RunOnce(t.Context(), 10_000)
				require.NoError(t, err)
				require.Equal(t, 300, sent)
			})
			f := run(t, db, wire, config)
			settled(t, db)
			require.Equal(t, bulkTotal, inOrder(t, &wire.recorder))
			once(t, &wire.recorder)
			// Not all: what lies above the frontier of its own shard is new there.
			require.Greater(t, f.Stats().Late, int64(5000))
			require.LessOrEqual(t, f.Stats().Late, int64(bulk+1), "each is counted once")
		})
	}
}

func TestLateEventsUnderARunningRelayComeBeforeNewOnes(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	f := run(t, db, wire, quick())
	bulkLate(t, db, func() { eventually(t, func() bool { return receipts(t, db) == 300 }, "the others wait for the late") })
	settled(t, db)
	require.Equal(t, bulkTotal, inOrder(t, &wire.recorder))
	once(t, &wire.recorder)
	require.Zero(t, f.Stats().Swept)
}

func TestLimitedRunsEndInTheMiddleOfManyLateEvents(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	f := newForwarder(t, db, wire, newConfig(quick()))
	bulkLate(t, db, func() {
		sent, err := f.RunOnce(t.Context(), 10_000)
		require.NoError(t, err)
		require.Equal(t, 300, sent)
	})
	for left := bulkTotal - 300; left > 0; left -= 700 {
		sent, err := f.RunOnce(t.Context(), 700)
		require.NoError(t, err)
		require.Equal(t, min(700, left), sent)
	}
	require.Equal(t, bulkTotal, inOrder(t, &wire.recorder))
	once(t, &wire.recorder)
}

// Late and new events of one read count against the same limit.
func TestLateEventsCountAgainstTheLimitOfARun(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	f := newForwarder(t, db, wire, newConfig(quick()))
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	for _, id := range []string{"late-1", "late-2", "late-3"} {
		_, err = tx.ExecContext(t.Context(), `insert into millrace.outbox (event_id, topic, partition_key) values ($1, 'orders', '1')`, id)
		require.NoError(t, err)
	}
	publish(t, db, "orders", orderEvent(1, 1))
	sent, err := f.RunOnce(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, sent)
	require.NoError(t, tx.Commit())
	publish(t, db, "orders", firstVersions(100, 299)...) // something new in every shard
	for left := 203; left > 0; left -= 5 {
		sent, err := f.RunOnce(t.Context(), 5)
		require.NoError(t, err)
		require.Equal(t, min(5, left), sent)
		if left < 190 {
			break // ten rounds say enough
		}
	}
	require.Contains(t, wire.ids(), "late-3")
	once(t, &wire.recorder)
}
