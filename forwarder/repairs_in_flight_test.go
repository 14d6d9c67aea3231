package forwarder_test

import (
	"database/sql"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

// retriedAt brings the first of three events of a key to a try that hangs with the publisher, with the others waiting behind
// it. When the gate opens it is refused, as it was before.
func retriedAt(t *testing.T, config outbox.SubscriberConfig, try int) (*sql.DB, *hooked, *gate) {
	t.Helper()
	db := testkit.Migrated(t)
	publish(t, db, "orders", versions(1, 1, 3)...)
	g, tries := newGate(), 0
	wire := &hooked{hook: func(topic string, msg *message.Message) {
		if topic == "orders" && msg.Metadata[event.IDKey] == "order-1-1" {
			if tries++; tries == try {
				g.pass()
			}
		}
	}}
	wire.refuse = func(topic string, msg *message.Message) error {
		if topic == "orders" {
			return refusing("order-1-1")(topic, msg)
		}
		return nil
	}
	run(t, db, wire, config)
	t.Cleanup(g.open)
	<-g.reached
	eventually(t, func() bool { return parkedRows(t, db, "blocked") == 2 }, "followers are not parked")
	return db, wire, g
}

// What an operator does to an event while it is being sent counts, and the refusal that comes back does not undo it.
func TestARefusalThatComesLateDoesNotUndoWhatAnOperatorDid(t *testing.T) {
	for state, repair := range map[string]func(*outbox.Operator) ([]outbox.Change, error){
		"quarantined": func(o *outbox.Operator) ([]outbox.Change, error) { return o.Skip(t.Context(), of("order-1-1")) },
		"discarded":   func(o *outbox.Operator) ([]outbox.Change, error) { return o.Discard(t.Context(), of("order-1-1")) },
	} {
		t.Run(state, func(t *testing.T) {
			db, wire, g := retriedAt(t, quick(), 2)
			changes, err := repair(operator(t, db))
			done(t, changes, err)
			obeyed(t, db)
			g.open()
			eventually(t, func() bool { return pending(t, db) == 1 }, "followers are not let go")
			publish(t, db, "orders", orderEvent(1, 4))
			eventually(t, func() bool { return pending(t, db) == 1 }, "what comes later is blocked by nothing")
			require.Equal(t, []string{"order-1-2", "order-1-3", "order-1-4"}, wireOf(&wire.recorder, "1"))
			require.Equal(t, state, parkedState(t, db, "order-1-1"))
		})
	}
}

func TestARetryOrderedDuringTheLastAttemptIsNotLost(t *testing.T) {
	config := quick()
	config.MaxAttempts = 2
	db, wire, g := retriedAt(t, config, 2)
	changes, err := operator(t, db).Retry(t.Context(), of("order-1-1"))
	done(t, changes, err)
	obeyed(t, db)
	g.open()
	isParked(t, db, "order-1-1", "quarantined") // after two more attempts
	changes, err = operator(t, db).Edit(t.Context(), outbox.Edit{Topic: "oversized"}, of("order-1-1"))
	done(t, changes, err)
	settled(t, db)
	require.Equal(t, []string{"order-1-1", "order-1-2", "order-1-3"}, wireOf(&wire.recorder, "1"))
	once(t, &wire.recorder)
}
