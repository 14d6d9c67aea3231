package forwarder_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

// schedule writes an event of an order for later.
func schedule(t *testing.T, db *sql.DB, order, version int, in time.Duration) {
	t.Helper()
	execute(t, db, `insert into millrace.outbox (event_id, topic, aggregate_type, aggregate_id, aggregate_version, partition_key, deliver_at)
		values ($1, 'orders', 'order', $2, $3, $2, millrace.clock() + $4::int * interval '1 ms')`,
		fmt.Sprintf("order-%d-%d", order, version), fmt.Sprint(order), version, in.Milliseconds())
}

func sentEarly(t *testing.T, db *sql.DB) int {
	t.Helper()
	return scan[int](t, db, `select count(*) from millrace.outbox join millrace.outbox_receipt using (shard, position) where sent_at < deliver_at`)
}

func TestScheduledEventsAreNotSentBeforeTheirTimeAndHoldUpNothing(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		first := run(t, db, publisher, quick())
		schedule(t, db, 1, 1, 1500*time.Millisecond)
		schedule(t, db, 1, 2, -time.Hour)
		publish(t, db, "orders", orderEvent(1, 3))
		isParked(t, db, "order-1-1", "scheduled")
		eventually(t, func() bool { return pending(t, db) == 1 }, "others wait")
		require.Equal(t, []string{"order-1-2", "order-1-3"}, wireOf(wire, "1"))
		stop(t, first)
		run(t, db, publisher, quick())
		settled(t, db)
		require.Equal(t, []string{"order-1-2", "order-1-3", "order-1-1"}, wireOf(wire, "1"))
		require.Zero(t, sentEarly(t, db))
		cleared(t, db)
	})
}

func TestAScheduledEventWhoseKeyIsBlockedJoinsItsEnd(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		wire.set(refusing("order-1-2"))
		config := quick()
		config.MaxAttempts = 1
		run(t, db, publisher, config)
		schedule(t, db, 1, 1, 400*time.Millisecond)
		publish(t, db, "orders", versions(1, 2, 4)...)
		isParked(t, db, "order-1-2", "quarantined")
		isParked(t, db, "order-1-1", "blocked")
		publish(t, db, "orders", orderEvent(1, 5))
		isParked(t, db, "order-1-5", "blocked")
		wire.set(nil)
		changes, err := operator(t, db).Retry(t.Context(), of("order-1-2"))
		done(t, changes, err)
		settled(t, db)
		require.Equal(t, []string{"order-1-2", "order-1-3", "order-1-4", "order-1-1", "order-1-5"}, wireOf(wire, "1"))
		once(t, wire)
		cleared(t, db)
	})
}

func TestManyScheduledEventsThatAreDueAtOnceAreSentOnce(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		config := quick()
		config.MaxUnsettled = 300
		run(t, db, publisher, config)
		execute(t, db, `insert into millrace.outbox (event_id, topic, partition_key, deliver_at)
			select 'e-' || n, 'orders', n % 70, now() + interval '1 s' from generate_series(1, 1000) n`)
		eventually(t, func() bool { return parkedRows(t, db, "scheduled") > 0 }, "nothing is scheduled")
		publish(t, db, "orders", versions(1, 1, 5)...)
		settled(t, db)
		require.Len(t, wire.ids(), 1005)
		once(t, wire)
		require.Zero(t, sentEarly(t, db))
		cleared(t, db)
	})
}

// The time is the database's: when its clock goes forward, what has become due is sent.
func TestScheduledEventsFollowTheDatabasesClock(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	config := quick()
	config.SweepInterval = 300 * time.Millisecond
	run(t, db, wire, config)
	schedule(t, db, 1, 1, 30*time.Minute)
	schedule(t, db, 1, 2, 2*time.Hour)
	isParked(t, db, "order-1-2", "scheduled")
	shiftClock(t, db, "1 hour")
	eventually(t, func() bool { return len(wire.ids()) > 0 }, "what is due is not sent")
	require.Equal(t, []string{"order-1-1"}, wire.ids())
	require.Equal(t, "scheduled", parkedState(t, db, "order-1-2"))
}

// A scheduled event that is refused, when its time has come, lets others pass by policy: that is on record.
func TestAScheduledEventThatIsPassedByPolicyIsAudited(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	wire.set(refusing("order-1-1"))
	config := quick()
	config.Policies = map[string]outbox.Policy{"orders": outbox.Skip}
	run(t, db, wire, config)
	schedule(t, db, 1, 1, 300*time.Millisecond)
	isParked(t, db, "order-1-1", "scheduled")
	isParked(t, db, "order-1-1", "retrying")
	publish(t, db, "orders", orderEvent(1, 2))
	eventually(t, func() bool { return pending(t, db) == 1 }, "followers do not pass")
	require.Equal(t, 1, scan[int](t, db, `select count(*) from millrace.audit where action = 'outbox.skip' and subject = 'order-1-1'`))
}
