package forwarder_test

import (
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// A topic that is not there waits in lanes of its own, over restarts, while others go on, and loses no place in its order.
func TestAnUnavailableTopicWaitsAloneAndLosesNothing(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		config := quick()
		config.MaxUnsettled = 2000
		wire.set(without("missing"))
		f := run(t, db, publisher, config)
		publish(t, db, "missing", versions(1, 1, 50)...)
		publish(t, db, "missing", firstVersions(100, 3000)...)
		execute(t, db, `insert into millrace.outbox (event_id, topic, aggregate_type, aggregate_id, aggregate_version, partition_key)
			select format('order-%s-1', n), 'orders', 'order', n, 1, n from generate_series(10001, 16000) n`)
		eventually(t, func() bool { return receipts(t, db) == 6000 }, "others wait")
		eventually(t, func() bool { return lanesHeld(t, db, "missing", "unavailable") == 64 }, "it is not held")
		require.Contains(t, scan[string](t, db, `select max(last_error) from millrace.outbox_lane`), "unknown topic")
		require.Zero(t, scan[int](t, db, `select count(*) from millrace.outbox_parked`))
		eventually(t, func() bool {
			return scan[bool](t, db, `select min(frontier_position) > 7000 from millrace.outbox_shard`)
		}, "the shards' frontiers stay behind")
		stop(t, f)

		run(t, db, publisher, config)
		publish(t, db, "missing", versions(1, 51, 60)...)
		publish(t, db, "orders", versions(2, 1, 10)...)
		eventually(t, func() bool { return receipts(t, db) == 6010 }, "others wait after a restart")
		require.Equal(t, 64, lanesHeld(t, db, "missing", "unavailable"))
		wire.set(nil)
		for version := 61; version <= 100; version++ {
			publish(t, db, "missing", orderEvent(1, version))
			publish(t, db, "orders", orderEvent(2, version-50))
		}
		settled(t, db)
		require.Equal(t, 6000+2901+100+50, inOrder(t, wire))
		once(t, wire)
		cleared(t, db)
	})
}

// Lanes, and what is parked, survive the death of a relay with work in flight.
func TestATakeoverKeepsLanesAndParkedEvents(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	publish(t, db, "missing", versions(1, 1, 20)...)
	publish(t, db, "orders", versions(2, 1, 20)...)
	wire := &lanes{}
	wire.set(func(topic string, msg *message.Message) error {
		return errors.Join(without("missing")(topic, msg), refusing("order-2-5")(topic, msg))
	})
	config := short()
	config.MaxAttempts = 1
	first := runMortal(t, dsn, "first", wire, config)
	eventually(t, func() bool { return lanesHeld(t, db, "missing", "unavailable") == 64 }, "it is not held")
	eventually(t, func() bool { return parkedRows(t, db, "blocked") == 15 }, "followers are not parked")
	first.die(t, db)
	run(t, db, wire, config)
	publish(t, db, "orders", orderEvent(3, 1))
	publish(t, db, "missing", orderEvent(1, 21))
	eventually(t, func() bool { return len(wireOf(&wire.recorder, "3")) == 1 }, "others wait")
	require.Empty(t, wireOf(&wire.recorder, "1"))
	require.Len(t, wireOf(&wire.recorder, "2"), 4)
	wire.set(nil)
	changes, err := operator(t, db).Retry(t.Context(), of("order-2-5"))
	done(t, changes, err)
	settled(t, db)
	allInOrder(t, &wire.recorder, 1, 21)
	allInOrder(t, &wire.recorder, 2, 20)
	cleared(t, db)
}

// What commits late, little or much, finds its topic held or its key blocked.
func TestLateEventsOfHeldTopicsAndBlockedKeysAreSentOnce(t *testing.T) {
	db := testkit.Migrated(t)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), `insert into millrace.outbox (event_id, topic, aggregate_type, aggregate_id, aggregate_version, partition_key)
		select format('order-%s-1', n), 'missing', 'order', n, 1, n from generate_series(1, $1) n`, bulk)
	require.NoError(t, err)
	small, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = small.ExecContext(t.Context(), `insert into millrace.outbox (event_id, topic, partition_key) values ('late', 'orders', 'k'), ('late too', 'missing', 'k')`)
	require.NoError(t, err)
	execute(t, db, `insert into millrace.outbox (event_id, topic, partition_key) values ('k-1', 'orders', 'k'), ('k-2', 'orders', 'k')`)
	publish(t, db, "missing", firstVersions(bulk+1, bulk+300)...)
	publish(t, db, "others", firstVersions(bulk+301, bulk+600)...)
	wire := &lanes{}
	wire.set(func(topic string, msg *message.Message) error {
		return errors.Join(without("missing")(topic, msg), refusing("k-1")(topic, msg))
	})
	config := quick()
	config.MaxAttempts, config.MaxUnsettled = 1, 3000
	f := run(t, db, wire, config)
	eventually(t, func() bool { return receipts(t, db) == 300 && lanesHeld(t, db, "missing", "unavailable") == 64 }, "others wait")
	isParked(t, db, "k-2", "blocked")
	require.NoError(t, small.Commit())
	require.NoError(t, tx.Commit())
	isParked(t, db, "late", "blocked")
	publish(t, db, "missing", orderEvent(bulk, 2), orderEvent(1, 2))
	publish(t, db, "others", orderEvent(bulk+301, 2))
	eventually(t, func() bool { return receipts(t, db) == 301 }, "others wait for the late")
	wire.set(nil)
	changes, err := operator(t, db).Retry(t.Context(), of("k-1"))
	done(t, changes, err)
	settled(t, db)
	once(t, &wire.recorder)
	require.Len(t, wire.ids(), bulk+600+3+4)
	require.Equal(t, []string{"order-1-1", "order-1-2"}, wireOf(&wire.recorder, "1"))
	require.Equal(t, []string{"k-1", "k-2", "late"}, only(wire.ids(), "k-1", "k-2", "late"))
	require.Zero(t, f.Stats().Swept)
	cleared(t, db)
}
