package forwarder_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// shiftClock moves the database's clock.
func shiftClock(t *testing.T, db *sql.DB, by string) {
	t.Helper()
	execute(t, db, `create or replace function millrace.clock() returns timestamptz language sql volatile as
		'select clock_timestamp() + interval ''`+by+`'''`)
}

// When the clock goes back an hour, a lease written before lies an hour ahead. A relay that died just then must not keep its
// shards that long.
func TestAClockThatGoesBackDoesNotProlongTheLeaseOfADeadRelay(t *testing.T) {
	db := testkit.Migrated(t)
	const dead = `00000000-0000-0000-0000-000000000001`
	execute(t, db, `insert into millrace.outbox_relay (relay_id, name, lease_ms, lease_until) values ($1, 'dead', 1500, millrace.clock() + interval '1500 ms')`, dead)
	execute(t, db, `update millrace.outbox_shard set relay_id = $1, claim_id = $1, claim_version = 1`, dead)
	publish(t, db, "orders", orderEvent(1, 1))
	shiftClock(t, db, "-1 hour")

	wire := &lanes{}
	began := time.Now()
	f := run(t, db, wire, short())
	settled(t, db)
	require.EqualValues(t, 64, f.Stats().Takeovers)
	require.Greater(t, time.Since(began), short().Lease, "its owner had a whole lease to renew it")
}

// Relays that live keep their shards when the clock goes back under them.
func TestAClockThatGoesBackCostsLivingRelaysNothing(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	first, second := run(t, db, wire, short()), run(t, db, wire, short())
	sharing(t, db, 32, 32)
	before := scan[int](t, db, `select sum(claim_version) from millrace.outbox_shard`)
	shiftClock(t, db, "-1 hour")
	eventually(t, func() bool {
		return scan[bool](t, db, `select max(lease_until) < millrace.clock() + interval '2 s' from millrace.outbox_relay`)
	}, "leases are not rewritten")
	ends := time.NewTimer(2 * short().Lease)
	<-ends.C
	require.Equal(t, []int{32, 32}, shares(t, db))
	require.Equal(t, before, scan[int](t, db, `select sum(claim_version) from millrace.outbox_shard`))
	require.Zero(t, first.Stats().Takeovers+second.Stats().Takeovers)
}

// When the clock goes forward an hour every lease has ended at once. What is with the broker then is settled by nobody who
// has lost the right to.
func TestAClockThatGoesForwardLosesAndReordersNothing(t *testing.T) {
	db := testkit.Migrated(t)
	for version := 1; version <= 30; version++ {
		publish(t, db, "orders", orderEvent(1, version))
	}
	reached, proceed := make(chan struct{}), make(chan struct{})
	calls := 0
	wire := &lanes{before: func([]*message.Message) {
		if calls++; calls == 3 {
			close(reached)
			<-proceed
		}
	}}
	config := short()
	config.BatchSize = 5
	run(t, db, wire, config)
	<-reached
	shiftClock(t, db, "1 hour")
	claims := scan[int](t, db, `select sum(claim_version) from millrace.outbox_shard`)
	eventually(t, func() bool {
		return scan[bool](t, db, `select count(*) = 0 from millrace.outbox_relay where lease_until > millrace.clock()`)
	}, "the lease has not ended")
	close(proceed)
	settled(t, db)
	require.Equal(t, 30, inOrder(t, &wire.recorder))
	eventually(t, func() bool { return scan[int](t, db, `select sum(claim_version) from millrace.outbox_shard`) > claims }, "not claimed anew")
}
