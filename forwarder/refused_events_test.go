package forwarder_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
)

const (
	refusedKeys     = 6
	refusedVersions = 20
)

// orders writes the versions 1 to refusedVersions of every key, interleaved.
func orders(t *testing.T, f func(order, version int)) {
	t.Helper()
	for version := 1; version <= refusedVersions; version++ {
		for order := range refusedKeys {
			f(order, version)
		}
	}
}

// smallBatches lets many batches be in flight at once, so that successors are on their way when an event is refused.
func smallBatches() forwarder.Config {
	config := quick()
	config.BatchSize, config.MaxInFlight = 4, 6
	return forwarder.Config{Outbox: config}
}

func TestEventsBehindOneRefusedForNowDoNotPassIt(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		orders(t, func(order, version int) { publish(t, db, "orders", orderEvent(order, version)) })
		tries := 0
		wire.refuse = func(_ string, msg *message.Message) error {
			if msg.UUID == "order-2-3" && tries < 3 {
				tries++
				return errors.New("leader not available")
			}
			return nil
		}
		f := runLogged(t, db, publisher, smallBatches(), nil)
		settled(t, db)
		require.Equal(t, refusedKeys*refusedVersions, inOrder(t, wire))
		once(t, wire)
		require.Equal(t, 3, tries)
		require.EqualValues(t, 3, f.Stats().Failed)
		require.Equal(t, 4, scan[int](t, db, `select attempts from millrace.outbox_status where event_id = 'order-2-3'`))
		if l, ok := publisher.(*lanes); ok {
			require.True(t, slices.IsSorted(l.generations), "results of an old generation let nothing newer pass")
		}
	})
}

func TestAnEventRefusedForGoodHoldsUpItsKeyAlone(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		orders(t, func(order, version int) { publish(t, db, "orders", orderEvent(order, version)) })
		var tries atomic.Int64
		wire.refuse = func(_ string, msg *message.Message) error {
			if msg.UUID == "order-2-3" {
				tries.Add(1)
				return event.Permanent(errors.New("record too large"))
			}
			return nil
		}
		runLogged(t, db, publisher, smallBatches(), nil)
		held := refusedVersions - 2
		eventually(t, func() bool { return pending(t, db) == held && tries.Load() > 2 }, "other keys do not pass")
		for order := range refusedKeys { // and go on passing
			publish(t, db, "orders", orderEvent(order, refusedVersions+1))
		}
		eventually(t, func() bool { return pending(t, db) == held+1 }, "other keys do not pass")
		require.NotContains(t, wire.ids(), "order-2-3")
		require.NotContains(t, wire.ids(), "order-2-4")

		wire.set(nil)
		settled(t, db)
		require.Equal(t, refusedKeys*(refusedVersions+1), inOrder(t, wire))
		once(t, wire)
	})
}

// An event without a key waits for nobody and nobody waits for it.
func TestAnEventWithoutAKeyThatIsRefusedForGoodHoldsUpNothing(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		for _, id := range []string{"a", "b", "c"} {
			execute(t, db, `insert into millrace.outbox (event_id, topic) values ($1, 'orders')`, id)
		}
		wire.refuse = func(_ string, msg *message.Message) error {
			if msg.UUID == "a" {
				return event.Permanent(errors.New("record too large"))
			}
			return nil
		}
		runLogged(t, db, publisher, smallBatches(), nil)
		eventually(t, func() bool { return pending(t, db) == 1 }, "others do not pass")
		require.ElementsMatch(t, []string{"b", "c"}, wire.ids())
	})
}

// A row that cannot be decoded is refused before the broker sees it; what comes before it under its key goes first.
func TestAnEventThatCannotBeDecodedHoldsUpItsKeyAlone(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		publish(t, db, "orders", orderEvent(1, 1), orderEvent(1, 2), orderEvent(1, 3), orderEvent(2, 1))
		execute(t, db, `update millrace.outbox set metadata = '{"broken": 7}' where event_id = 'order-1-2'`)
		runLogged(t, db, publisher, smallBatches(), nil)
		eventually(t, func() bool { return pending(t, db) == 2 }, "others do not pass")
		require.ElementsMatch(t, []string{"order-1-1", "order-2-1"}, wire.ids())
	})
}

// One topic that is refused does not hold up the others.
func TestARefusedTopicDoesNotHoldUpOtherTopics(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		orders(t, func(order, version int) { publish(t, db, []string{"good", "bad"}[order%2], orderEvent(order, version)) })
		wire.refuse = func(topic string, _ *message.Message) error {
			if topic == "bad" {
				return errors.New("not authorized")
			}
			return nil
		}
		runLogged(t, db, publisher, smallBatches(), nil)
		eventually(t, func() bool { return pending(t, db) == refusedKeys*refusedVersions/2 }, "the good topic is held up")
		wire.set(nil)
		settled(t, db)
		require.Equal(t, refusedKeys*refusedVersions, inOrder(t, wire))
		once(t, wire)
	})
}
