package forwarder_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

// deadly is a publisher that ends the relay which sends one of its events: nothing comes back from it.
type deadly struct {
	hooked
	died chan chan struct{} // of each death the end, after which what is left of the relay may go
}

func newDeadly(ids ...string) *deadly {
	d := &deadly{died: make(chan chan struct{})}
	kills := map[string]bool{}
	for _, id := range ids {
		kills[id] = true
	}
	d.hook = func(_ string, msg *message.Message) {
		if kills[msg.Metadata[event.IDKey]] {
			end := make(chan struct{})
			d.died <- end
			<-end
		}
	}
	d.refuse = func(_ string, msg *message.Message) error {
		if kills[msg.Metadata[event.IDKey]] {
			return event.ErrNotAttempted
		}
		return nil
	}
	return d
}

// relayUntil runs one relay after another, as each ends over an event, until a condition holds under one that lives.
func relayUntil(t *testing.T, db *sql.DB, dsn string, d *deadly, config outbox.SubscriberConfig, most int, condition func() bool) (deaths int) {
	t.Helper()
	for ; deaths <= most; deaths++ {
		m := runMortal(t, dsn, fmt.Sprint("relay-", deaths), d, config)
		var end chan struct{}
		eventually(t, func() bool {
			select {
			case end = <-d.died:
				return true
			default:
				return condition()
			}
		}, "neither killed nor done")
		if end == nil {
			return deaths
		}
		m.die(t, db)
		close(end)
		stop(t, m.Forwarder)
	}
	require.Fail(t, "relays go on dying")
	return deaths
}

const crashers = 12 // more deaths than the guard needs to find one event

func TestAnEventThatTakesRelaysDownIsQuarantined(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	for version := 1; version <= 5; version++ {
		publish(t, db, "orders", orderEvent(1, version), orderEvent(2, version), orderEvent(3, version))
	}
	d := newDeadly("order-2-3")
	config := short()
	config.BatchSize = 4
	deaths := relayUntil(t, db, dsn, d, config, crashers, func() bool { return pending(t, db) == 3 })
	require.Greater(t, deaths, 2, "an accident is no reason")
	require.Equal(t, "relay crash quarantined", scan[string](t, db,
		`select stage || ' ' || error_class || ' ' || state from millrace.outbox_parked where event_id = 'order-2-3'`))
	require.Equal(t, 2, parkedRows(t, db, "blocked"))
	require.Equal(t, 12, inOrder(t, &d.recorder))
}

// It may wait for its time, or behind another event, before it does.
func TestAParkedEventThatTakesRelaysDownIsQuarantined(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	execute(t, db, `insert into millrace.outbox (event_id, topic, partition_key, deliver_at) values ('deadly', 'orders', '1', millrace.clock() + interval '1 s')`)
	publish(t, db, "orders", firstVersions(1, 100)...)
	d := newDeadly("deadly")
	deaths := relayUntil(t, db, dsn, d, short(), crashers, func() bool { return parkedState(t, db, "deadly") == "quarantined" })
	require.Greater(t, deaths, 2, "an accident is no reason")
	require.Equal(t, 100, inOrder(t, &d.recorder))
}

// Relays that are replaced again and again, but get on, send at full speed: the guard has no part in it.
func TestTakeoversWithProgressDoNotRaiseTheGuard(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	d := newDeadly()
	for round := range 5 {
		m := runMortal(t, dsn, fmt.Sprint("relay-", round), d, short())
		publish(t, db, "orders", firstVersions(round*200+1, round*200+200)...)
		settled(t, db)
		eventually(t, func() bool {
			return scan[bool](t, db, `select bool_and(takeovers <= 1) and bool_and(suspect is null) from millrace.outbox_shard`)
		}, "progress does not count")
		m.die(t, db)
		stop(t, m.Forwarder)
	}
	require.Equal(t, 1000, inOrder(t, &d.recorder))
	require.Zero(t, scan[int](t, db, `select count(*) from millrace.outbox_parked`))
}
