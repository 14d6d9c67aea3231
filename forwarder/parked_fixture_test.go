package forwarder_test

import (
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

func operator(t *testing.T, db *sql.DB) *outbox.Operator {
	t.Helper()
	o, err := outbox.NewOperator(db, outbox.OperatorConfig{Actor: "ann"})
	require.NoError(t, err)
	return o
}

// of is an operation on events.
func of(ids ...string) outbox.Operation { return outbox.Operation{EventIDs: ids, Reason: "a test"} }

// done asserts that an operation did what it should to each event.
func done(t *testing.T, changes []outbox.Change, err error) {
	t.Helper()
	require.NoError(t, err)
	for _, c := range changes {
		require.NoError(t, c.Err, "event %s", c.EventID)
	}
}

// parkedState is the state an event is parked in, "" if it is not.
func parkedState(t *testing.T, db *sql.DB, id string) string {
	t.Helper()
	return scan[string](t, db, `select coalesce((select state from millrace.outbox_parked where event_id = $1), '')`, id)
}

func isParked(t *testing.T, db *sql.DB, id, state string) {
	t.Helper()
	eventually(t, func() bool { return parkedState(t, db, id) == state }, id+" is not "+state)
}

// parkedRows is how many events are parked in a state.
func parkedRows(t *testing.T, db *sql.DB, state string) int {
	t.Helper()
	return scan[int](t, db, `select count(*) from millrace.outbox_parked where state = $1`, state)
}

// tooLarge is a verdict that is final.
var tooLarge = event.Permanent(event.Classify(errors.New("record too large"), "too_large"))

// refusing refuses some events for good.
func refusing(ids ...string) func(string, *message.Message) error {
	return func(_ string, msg *message.Message) error {
		if slices.Contains(ids, msg.Metadata[event.IDKey]) {
			return tooLarge
		}
		return nil
	}
}

// without refuses whatever goes to a topic that is not there.
func without(missing string) func(string, *message.Message) error {
	return func(topic string, _ *message.Message) error {
		if topic == missing {
			return errors.Join(event.ErrTopicUnavailable, errors.New("unknown topic"))
		}
		return nil
	}
}

// versions are events of one order.
func versions(order, from, to int) (events []*message.Message) {
	for version := from; version <= to; version++ {
		events = append(events, orderEvent(order, version))
	}
	return events
}

// wireOf are the ids of what was sent of an aggregate, in order.
func wireOf(r *recorder, order string) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, msg := range r.got {
		if msg.Metadata[event.AggregateIDKey] == order {
			ids = append(ids, msg.Metadata[event.IDKey])
		}
	}
	return ids
}

// gate holds up what comes to it until it is opened, which it is at the latest when the test ends.
type gate struct {
	reached chan struct{} // closed by the first that comes
	once    sync.Once
	opened  chan struct{}
	open    func()
}

func newGate() *gate {
	g := &gate{reached: make(chan struct{}), opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	return g
}

func (g *gate) pass() {
	g.once.Do(func() { close(g.reached) })
	<-g.opened
}

// stop ends a forwarder before the test does.
func stop(t *testing.T, f *forwarder.Forwarder) {
	t.Helper()
	require.NoError(t, f.Close())
}

// obeyed waits until the relays that run have seen what operators have changed: they have with the first event that is read
// after it.
func obeyed(t *testing.T, db *sql.DB) {
	t.Helper()
	n := scan[int](t, db, `select count(*) from millrace.outbox where topic = 'probes'`)
	// Some of every shard, and so of every relay.
	execute(t, db, `insert into millrace.outbox (event_id, topic)
		select 'probe-' || n, 'probes' from generate_series($1::int, $1::int + 300) n`, n)
	eventually(t, func() bool {
		return scan[int](t, db, `select count(*) from millrace.outbox_status where topic = 'probes' and state <> 'sent'`) == 0
	}, "probes are not sent")
}

// mortal is a relay that can be cut off from the database as if its process had ended.
type mortal struct {
	*forwarder.Forwarder
	db   *sql.DB
	name string
}

// runMortal runs a relay on connections of its own.
func runMortal(t *testing.T, dsn, name string, publisher message.Publisher, config outbox.SubscriberConfig) *mortal {
	t.Helper()
	config.Name, config.CloseTimeout = name, time.Second
	m := &mortal{db: testkit.Open(t, "postgres", dsn), name: name}
	m.Forwarder = run(t, m.db, publisher, config)
	return m
}

// die cuts the relay off and ends its lease.
func (m *mortal) die(t *testing.T, db *sql.DB) {
	t.Helper()
	require.NoError(t, m.db.Close())
	eventually(t, func() bool {
		return scan[int](t, db, `select count(*) from pg_stat_activity where datname = current_database() and state = 'active' and pid <> pg_backend_pid()
			and query like '%outbox_relay%'`) == 0
	}, "a renewal is under way")
	execute(t, db, `update millrace.outbox_relay set lease_until = millrace.clock() - interval '1 s' where name = $1`, m.name)
}

// hooked is a publisher that does something before each event, holding up nothing but the event's topic.
type hooked struct {
	recorder
	hook func(topic string, msg *message.Message)
}

func (h *hooked) Publish(topic string, msgs ...*message.Message) error {
	for _, msg := range msgs {
		h.hook(topic, msg)
	}
	return h.recorder.Publish(topic, msgs...)
}

// lanesHeld is in how many shards a topic is held for a reason.
func lanesHeld(t *testing.T, db *sql.DB, topic, reason string) int {
	t.Helper()
	return scan[int](t, db, `select count(*) from millrace.outbox_lane where topic = $1 and held and reason = $2`, topic, reason)
}

// cleared waits until nothing is parked or held any longer.
func cleared(t *testing.T, db *sql.DB) {
	t.Helper()
	eventually(t, func() bool {
		return scan[int](t, db, `select (select count(*) from millrace.outbox_lane) + (select count(*) from millrace.outbox_parked)`) == 0
	}, "something is left")
}

// allInOrder asserts that the versions 1 to n of an order were sent, each once and in order.
func allInOrder(t *testing.T, r *recorder, order, n int) {
	t.Helper()
	var want []string
	for _, msg := range versions(order, 1, n) {
		want = append(want, msg.Metadata[event.IDKey])
	}
	require.Equal(t, want, wireOf(r, strconv.Itoa(order)))
}

// only leaves some ids of a list.
func only(list []string, ids ...string) (some []string) {
	for _, id := range list {
		if slices.Contains(ids, id) {
			some = append(some, id)
		}
	}
	return some
}
