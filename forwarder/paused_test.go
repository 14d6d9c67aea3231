package forwarder_test

import (
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

func topicPaused(topic string) outbox.Pause { return outbox.Pause{Topic: topic, Reason: "a test"} }

func orderPaused(id string) outbox.Pause {
	return outbox.Pause{AggregateType: "order", AggregateID: id, Reason: "a test"}
}

// The place in the order that a refused event has does not change when its aggregate is paused and resumed.
func TestARefusedEventKeepsItsPlaceWhileItsAggregateIsPaused(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		publish(t, db, "orders", versions(1, 1, 5)...)
		config := quick()
		config.MaxAttempts = 1
		wire.set(refusing("order-1-1"))
		run(t, db, publisher, config)
		isParked(t, db, "order-1-1", "quarantined")
		o := operator(t, db)
		require.NoError(t, o.Pause(t.Context(), orderPaused("1"), false))
		wire.set(nil)
		changes, err := o.Retry(t.Context(), of("order-1-1"))
		done(t, changes, err)
		obeyed(t, db)
		require.Empty(t, wireOf(wire, "1"))
		require.NoError(t, o.Resume(t.Context(), orderPaused("1"), false))
		settled(t, db)
		allInOrder(t, wire, 1, 5)
	})
}

// Of a paused aggregate only what is with the publisher already is still sent, however much has been read.
func TestAPauseOfAnAggregateHoldsBackWhatHasBeenRead(t *testing.T) {
	db := testkit.Migrated(t)
	publish(t, db, "orders", versions(1, 1, 100)...)
	g := newGate()
	wire := &hooked{hook: func(topic string, _ *message.Message) {
		if topic == "orders" {
			g.pass()
		}
	}}
	config := quick()
	config.BatchSize, config.MaxInFlight = 2, 2
	run(t, db, wire, config)
	t.Cleanup(g.open)
	<-g.reached
	o := operator(t, db)
	require.NoError(t, o.Pause(t.Context(), orderPaused("1"), false))
	obeyed(t, db)
	g.open()
	publish(t, db, "orders", orderEvent(2, 1))
	eventually(t, func() bool { return pending(t, db) <= 96 }, "nothing is sent")
	eventually(t, func() bool { return len(wireOf(&wire.recorder, "2")) == 1 }, "others wait")
	require.LessOrEqual(t, len(wireOf(&wire.recorder, "1")), 4, "what was in flight")
	require.NoError(t, o.Resume(t.Context(), orderPaused("1"), false))
	settled(t, db)
	allInOrder(t, &wire.recorder, 1, 100)
}

// What is with the publisher when its topic is paused and resumed is not sent a second time.
func TestAShortPauseRepeatsNothing(t *testing.T) {
	db := testkit.Migrated(t)
	publish(t, db, "orders", versions(1, 1, 10)...)
	g := newGate()
	wire := &hooked{hook: func(topic string, _ *message.Message) {
		if topic == "orders" {
			g.pass()
		}
	}}
	run(t, db, wire, quick())
	t.Cleanup(g.open)
	<-g.reached
	o := operator(t, db)
	require.NoError(t, o.Pause(t.Context(), topicPaused("orders"), false))
	obeyed(t, db)
	require.NoError(t, o.Resume(t.Context(), topicPaused("orders"), false))
	obeyed(t, db)
	g.open()
	settled(t, db)
	publish(t, db, "orders", orderEvent(1, 11))
	settled(t, db)
	allInOrder(t, &wire.recorder, 1, 11)
}

// A paused topic stays paused, whatever the broker says of what was in flight.
func TestATopicThatTurnsOutUnavailableWhilePausedStaysPaused(t *testing.T) {
	db := testkit.Migrated(t)
	publish(t, db, "orders", versions(1, 1, 3)...)
	g := newGate()
	wire := &hooked{hook: func(topic string, _ *message.Message) {
		if topic == "orders" {
			g.pass()
		}
	}}
	failures := 0
	wire.refuse = func(topic string, _ *message.Message) error {
		if topic == "orders" && failures == 0 {
			failures++
			return errors.Join(event.ErrTopicUnavailable, errors.New("unknown topic"))
		}
		return nil
	}
	f := run(t, db, wire, quick())
	t.Cleanup(g.open)
	<-g.reached
	o := operator(t, db)
	require.NoError(t, o.Pause(t.Context(), topicPaused("orders"), false))
	obeyed(t, db)
	g.open()
	eventually(t, func() bool { return f.Stats().Failed > 0 }, "it does not fail")
	for range 3 {
		obeyed(t, db)
	}
	require.Empty(t, wireOf(&wire.recorder, "1"))
	eventually(t, func() bool { return lanesHeld(t, db, "orders", "paused") == 64 }, "it is not paused in every shard")
	require.NoError(t, o.Resume(t.Context(), topicPaused("orders"), false))
	settled(t, db)
	allInOrder(t, &wire.recorder, 1, 3)
}

// An operator who pauses a topic that fills the memory of a relay gets room for the others.
func TestAPauseIsSeenByARelayWhoseMemoryIsFull(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		publish(t, db, "bad", firstVersions(1, 100)...)
		wire.set(func(topic string, _ *message.Message) error {
			if topic == "bad" {
				return errors.New("not now")
			}
			return nil
		})
		config := quick()
		config.MaxUnsettled = 20
		f := run(t, db, publisher, config)
		eventually(t, func() bool { return f.Stats().Failed > 3 }, "nothing is tried")
		publish(t, db, "good", firstVersions(101, 150)...)
		o := operator(t, db)
		require.NoError(t, o.Pause(t.Context(), topicPaused("bad"), false))
		eventually(t, func() bool { return pending(t, db) == 100 }, "others are not sent")
		wire.set(nil)
		require.NoError(t, o.Resume(t.Context(), topicPaused("bad"), false))
		settled(t, db)
		require.Equal(t, 150, inOrder(t, wire))
		once(t, wire)
	})
}

// An event refused after its aggregate was paused keeps its place before what has been read after it.
func TestAnEventRefusedWhileItsAggregateIsPausedIsNotOvertaken(t *testing.T) {
	db := testkit.Migrated(t)
	publish(t, db, "orders", versions(1, 1, 6)...)
	g := newGate()
	wire := &hooked{hook: func(topic string, _ *message.Message) {
		if topic == "orders" {
			g.pass()
		}
	}}
	wire.refuse = refusing("order-1-1")
	config := quick()
	config.BatchSize, config.MaxInFlight, config.MaxAttempts = 2, 1, 1
	run(t, db, wire, config)
	t.Cleanup(g.open)
	<-g.reached
	o := operator(t, db)
	require.NoError(t, o.Pause(t.Context(), orderPaused("1"), false))
	publish(t, db, "orders", versions(1, 7, 8)...)
	obeyed(t, db)
	g.open()
	isParked(t, db, "order-1-1", "quarantined")
	eventually(t, func() bool { return parkedRows(t, db, "blocked") == 7 }, "followers are not parked")
	wire.set(nil)
	changes, err := o.Retry(t.Context(), of("order-1-1"))
	done(t, changes, err)
	require.NoError(t, o.Resume(t.Context(), orderPaused("1"), false))
	settled(t, db)
	allInOrder(t, &wire.recorder, 1, 8)
}

// Two relays follow a pause, one that starts later does, and in the end everything is sent in order.
func TestAPauseHoldsOnEveryRelayAndOutlivesThem(t *testing.T) {
	for name, what := range map[string]outbox.Pause{"topic": topicPaused("orders"), "aggregate": orderPaused("1")} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
				db := testkit.Migrated(t)
				config := short()
				first, second := run(t, db, publisher, config), run(t, db, publisher, config)
				sharing(t, db, 32, 32)
				publish(t, db, "orders", versions(1, 1, 3)...)
				settled(t, db)
				o := operator(t, db)
				require.NoError(t, o.Pause(t.Context(), what, false))
				publish(t, db, "orders", versions(1, 4, 20)...)
				publish(t, db, "others", orderEvent(2, 1))
				obeyed(t, db)
				eventually(t, func() bool { return len(wireOf(wire, "2")) == 1 }, "others are paused")
				require.Len(t, wireOf(wire, "1"), 3)
				stop(t, first)
				stop(t, second)
				run(t, db, publisher, config)
				publish(t, db, "orders", versions(1, 21, 25)...)
				obeyed(t, db)
				require.Len(t, wireOf(wire, "1"), 3)
				require.NoError(t, o.Resume(t.Context(), what, false))
				publish(t, db, "orders", versions(1, 26, 30)...)
				settled(t, db)
				allInOrder(t, wire, 1, 30)
				cleared(t, db)
			})
		})
	}
}

// A key can wait for two things. It goes on when both are over, whichever is first.
func TestAPauseAndARefusedEventBothHoldTheirKey(t *testing.T) {
	for _, resumeFirst := range []bool{true, false} {
		both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
			db := testkit.Migrated(t)
			publish(t, db, "orders", versions(1, 1, 5)...)
			wire.set(refusing("order-1-2"))
			config := quick()
			config.MaxAttempts = 1
			run(t, db, publisher, config)
			isParked(t, db, "order-1-2", "quarantined")
			eventually(t, func() bool { return parkedRows(t, db, "blocked") == 3 }, "followers are not parked")
			o := operator(t, db)
			require.NoError(t, o.Pause(t.Context(), orderPaused("1"), false))
			wire.set(nil)
			resume := func() { require.NoError(t, o.Resume(t.Context(), orderPaused("1"), false)) }
			retry := func() {
				changes, err := o.Retry(t.Context(), of("order-1-2"))
				done(t, changes, err)
			}
			steps := []func(){resume, retry}
			if !resumeFirst {
				steps = []func(){retry, resume}
			}
			steps[0]()
			publish(t, db, "orders", orderEvent(1, 6))
			obeyed(t, db)
			require.Len(t, wireOf(wire, "1"), 1)
			steps[1]()
			settled(t, db)
			allInOrder(t, wire, 1, 6)
		})
	}
}

// A topic that is unavailable can be paused, comes back meanwhile, and is not sent to before it is resumed.
func TestAnUnavailableTopicThatIsPausedWaitsToBeResumed(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		publish(t, db, "orders", versions(1, 1, 5)...)
		wire.set(without("orders"))
		run(t, db, publisher, quick())
		eventually(t, func() bool { return lanesHeld(t, db, "orders", "unavailable") == 64 }, "it is not held")
		o := operator(t, db)
		require.NoError(t, o.Pause(t.Context(), topicPaused("orders"), false))
		eventually(t, func() bool { return lanesHeld(t, db, "orders", "paused") == 64 }, "it is not paused")
		wire.set(nil)
		obeyed(t, db)
		obeyed(t, db)
		require.Empty(t, wireOf(wire, "1"))
		wire.set(without("orders"))
		require.NoError(t, o.Resume(t.Context(), topicPaused("orders"), false))
		eventually(t, func() bool { return lanesHeld(t, db, "orders", "unavailable") == 64 }, "it is not held again")
		wire.set(nil)
		settled(t, db)
		allInOrder(t, wire, 1, 5)
		cleared(t, db)
	})
}
