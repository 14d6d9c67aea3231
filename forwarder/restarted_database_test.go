package forwarder_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/migrations"
)

func TestCrashOfTheDatabaseLosesNothing(t *testing.T) {
	server := testkit.StartPostgres(t)
	db := testkit.Open(t, "postgres", server.DSN())
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{}))
	wire := &lanes{}
	run(t, db, wire, quick())
	for version := 1; version <= 10; version++ {
		publish(t, db, "orders", orderEvent(1, version), orderEvent(2, version))
	}
	settled(t, db)
	anchor := scan[string](t, db, `select distinct anchor from millrace.outbox_shard`)

	testkit.Kill(t, server.PID())
	testkit.RestartPostgres(t, server)
	eventually(t, func() bool { return db.PingContext(context.Background()) == nil }, "the database does not come back")
	for version := 11; version <= 20; version++ {
		publish(t, db, "orders", orderEvent(1, version), orderEvent(2, version))
	}
	settled(t, db)
	require.Equal(t, 40, inOrder(t, &wire.recorder))
	require.NotEqual(t, anchor, scan[string](t, db, `select distinct anchor from millrace.outbox_shard`))
	require.Equal(t, 2, scan[int](t, db, `select min(claim_version) from millrace.outbox_shard`), "shards are claimed anew")
}

// A promoted replica has the lease and the frontier of before, but may lack the last transactions: what the relay
// remembers may mean other events there.
func TestPromotionEndsWhatWasBegunBefore(t *testing.T) {
	db := testkit.Migrated(t)
	publish(t, db, "orders", orderEvent(1, 1))
	reached, proceed := make(chan struct{}), make(chan struct{})
	first := true
	wire := &lanes{before: func([]*message.Message) {
		if first {
			first = false
			close(reached)
			<-proceed
		}
	}}
	f := run(t, db, wire, quick())
	<-reached
	execute(t, db, `create or replace function millrace.anchor() returns text language sql volatile as
		$$ select system_identifier || '/00000002/0' from pg_control_system() $$`)
	close(proceed)

	settled(t, db)
	require.Equal(t, []string{"order-1-1", "order-1-1"}, wire.ids(), "sent before the promotion, and again after it")
	require.Equal(t, 2, scan[int](t, db, `select claim_version from millrace.outbox_receipt`), "no receipt under the old anchor")
	require.EqualValues(t, 1, f.Stats().Sent)
	require.EqualValues(t, 1, f.Stats().Fenced)
	publish(t, db, "orders", orderEvent(1, 2))
	settled(t, db)
	require.Equal(t, 2, inOrder(t, &wire.recorder))
}

// The event at a position may become another between read and receipt: a lost transaction's position is given again.
func TestReceiptIsNotWrittenForTheEventThatTookThePosition(t *testing.T) {
	db := testkit.Migrated(t)
	const insert = `insert into millrace.outbox (position, event_id, topic, partition_key) overriding system value values (7, $1, 'orders', 'key')`
	execute(t, db, insert, "lost")
	reached, proceed := make(chan struct{}), make(chan struct{})
	first := true
	wire := &lanes{before: func([]*message.Message) {
		if first {
			first = false
			close(reached)
			<-proceed
		}
	}}
	config := quick()
	config.MaxUnsettled = 1 // nothing else is read before the first is settled
	execute(t, db, `select setval('millrace.outbox_position_seq', 7)`)
	run(t, db, wire, config)
	<-reached
	execute(t, db, `delete from millrace.outbox where event_id = 'lost'`)
	execute(t, db, insert, "new")
	close(proceed)
	settled(t, db)
	require.Equal(t, []string{"lost", "new"}, wire.ids())
	require.Equal(t, 1, scan[int](t, db, `select kafka_offset from millrace.outbox_receipt`), "the receipt is the new event's")
}
