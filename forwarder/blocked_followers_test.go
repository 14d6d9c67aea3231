package forwarder_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

// What waits behind a refused event waits in the database: it outlives relays, also those that end without a word, in its
// order.
func TestFollowersOfARefusedEventOutliveTheirRelays(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	orders(t, func(order, version int) { publish(t, db, "orders", orderEvent(order, version)) })
	wire := &lanes{}
	wire.set(func(_ string, msg *message.Message) error {
		switch msg.Metadata[event.IDKey] {
		case "order-2-3":
			return event.Permanent(event.Classify(errors.New("record too large"), "too_large"))
		}
		return nil
	})
	config := short()
	config.BatchSize, config.MaxInFlight, config.MaxAttempts = 4, 6, 3
	first := run(t, db, wire, config)
	isParked(t, db, "order-2-3", "quarantined")
	require.Equal(t, "3 publish too_large record too large record too large", scan[string](t, db,
		`select concat_ws(' ', attempts, stage, error_class, first_error, last_error) from millrace.outbox_parked where event_id = 'order-2-3'`))
	eventually(t, func() bool { return parkedRows(t, db, "blocked") == refusedVersions-3 }, "followers are not parked")
	require.True(t, scan[bool](t, db, `select bool_and(entry = n) from (select entry, min(entry) over () - 1 + row_number() over (order by aggregate_version) as n
		from millrace.outbox_parked join millrace.outbox using (shard, position) where state = 'blocked') o`), "in order")
	stop(t, first)

	second := runMortal(t, dsn, "second", wire, config)
	publish(t, db, "orders", orderEvent(2, refusedVersions+1), orderEvent(3, refusedVersions+1))
	isParked(t, db, "order-2-21", "blocked")
	second.die(t, db)
	run(t, db, wire, config)
	publish(t, db, "orders", orderEvent(2, refusedVersions+2), orderEvent(3, refusedVersions+2))
	isParked(t, db, "order-2-22", "blocked")
	eventually(t, func() bool { return slices.Contains(wire.ids(), "order-3-22") }, "others wait")
	require.Len(t, wireOf(&wire.recorder, "2"), 2)

	wire.set(nil)
	changes, err := operator(t, db).Retry(t.Context(), of("order-2-3"))
	done(t, changes, err)
	settled(t, db)
	require.Equal(t, refusedKeys*refusedVersions+4, inOrder(t, &wire.recorder))
	cleared(t, db)
}

// However many wait, they do not fill the relay's memory, and what comes while they are let go stays behind them.
func TestManyFollowersNeitherFillTheMemoryNorAreOvertaken(t *testing.T) {
	db := testkit.Migrated(t)
	const followers = 5000
	execute(t, db, `insert into millrace.outbox (event_id, topic, aggregate_type, aggregate_id, aggregate_version, partition_key)
		select format('order-1-%s', n), 'orders', 'order', '1', n, '1' from generate_series(1, $1) n`, followers)
	wire := &lanes{}
	wire.set(refusing("order-1-1"))
	config := outbox.SubscriberConfig{PollInterval: 20 * time.Millisecond, MaxAttempts: 1, MaxUnsettled: 1000}
	f := run(t, db, wire, config)
	eventually(t, func() bool { return f.Stats().Blocked == followers-1 }, "followers are not parked")
	publish(t, db, "orders", firstVersions(2, 300)...)
	eventually(t, func() bool { return receipts(t, db) == 299 }, "others wait")
	wire.set(nil)
	changes, err := operator(t, db).Retry(t.Context(), of("order-1-1"))
	done(t, changes, err)
	for version := followers + 1; version <= followers+100; version++ {
		publish(t, db, "orders", orderEvent(1, version))
	}
	settled(t, db)
	require.Equal(t, followers+100+299, inOrder(t, &wire.recorder))
	once(t, &wire.recorder)
	cleared(t, db)
}

// A zero-length key is a key; no key is none.
func TestAnEmptyKeyIsBlockedAsAnyOther(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		execute(t, db, `insert into millrace.outbox (event_id, topic, partition_key)
			values ('a-1', 'orders', ''), ('a-2', 'orders', ''), ('b-1', 'orders', null), ('b-2', 'orders', null)`)
		wire.set(refusing("a-1", "b-1"))
		config := quick()
		config.MaxAttempts = 1
		run(t, db, publisher, config)
		isParked(t, db, "a-1", "quarantined")
		isParked(t, db, "b-1", "quarantined")
		isParked(t, db, "a-2", "blocked")
		eventually(t, func() bool { return pending(t, db) == 3 }, "an event without a key waits")
		require.Equal(t, []string{"b-2"}, wire.ids())
		wire.set(nil)
		changes, err := operator(t, db).Retry(t.Context(), of("a-1", "b-1"))
		done(t, changes, err)
		settled(t, db)
		require.Equal(t, []string{"a-1", "a-2"}, only(wire.ids(), "a-1", "a-2"))
	})
}

// When nothing can be sent nothing is parked or held, and no attempt counts.
func TestAnOutageParksNothing(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		orders(t, func(order, version int) { publish(t, db, []string{"one", "two"}[order%2], orderEvent(order, version)) })
		var tries atomic.Int64
		wire.set(func(string, *message.Message) error {
			tries.Add(1)
			return errors.New("broker away")
		})
		config := quick()
		config.MaxAttempts = 2
		f := run(t, db, publisher, config)
		eventually(t, func() bool { return f.Stats().Failed > 12 }, "nothing is tried")
		require.Zero(t, scan[int](t, db, `select (select count(*) from millrace.outbox_lane) + (select count(*) from millrace.outbox_parked)`))
		wire.set(nil)
		settled(t, db)
		require.Equal(t, refusedKeys*refusedVersions, inOrder(t, wire))
		once(t, wire)
		require.Zero(t, f.Stats().Parked)
	})
}
