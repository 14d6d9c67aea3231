package middleware_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/middleware"
)

var operator = inbox.By{Actor: "ann", Reason: "handler mended"}

// replays runs the consumer's handler on what is replayed.
func (r *rig) replays(consumer string, chain []message.HandlerMiddleware, handler message.NoPublishHandlerFunc) (stop func()) {
	r.t.Helper()
	subscriber, err := inbox.NewSubscriber(r.db, inbox.SubscriberConfig{Consumer: consumer, PollInterval: 10 * time.Millisecond}, nil)
	require.NoError(r.t, err)
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, nil)
	require.NoError(r.t, err)
	router.AddMiddleware(chain...)
	router.AddConsumerHandler(consumer+".replay", "orders", subscriber, handler)
	return run(r.t, router)
}

func (r *rig) replay(consumer, eventID string) {
	r.t.Helper()
	require.NoError(r.t, r.store.Replay(context.Background(), consumer, eventID, operator))
}

func (r *rig) eventually(query string, args ...any) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.count(query, args...) == 1 }, patience, tick, query)
}

func TestAReplayRunsOnlyTheConsumerThatFailed(t *testing.T) {
	r := newRig(t)
	var a, b atomicCounter
	stop := r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"a": failing(&a), "b": failing(&b)})
	payload := []byte("\x00\xff body")
	msg := event.New("order.paid", payload, event.WithID("e-1"), event.Aggregate("order", "4711", 3), event.Meta("binary", "\xff"))
	at := event.Delivery{Topic: "orders", Partition: 2, Offset: 9, Key: []byte("4711"), Timestamp: time.UnixMilli(1_700_000_000_000)}
	r.deliver(r.at(msg, at))
	stop()
	require.Len(t, r.dead(), 2)

	var replayed, other atomicCounter
	var got *message.Message
	r.replays("a", r.chain(), func(msg *message.Message) error { replayed.add(); got = msg.CopyWithContext(); return write(msg) })
	r.replays("b", r.chain(), failing(&other))
	r.replay("a", "e-1")
	r.eventually("select count(*) from millrace.inbox where consumer = 'a' and state = 'done' and payload is null and replays = 1")

	require.Equal(t, 1, replayed.get())
	require.Zero(t, other.get())
	require.Equal(t, payload, []byte(got.Payload))
	require.Equal(t, msg.Metadata, got.Metadata)
	d, ok := event.DeliveryFromContext(got.Context())
	require.True(t, ok)
	require.Equal(t, at.Timestamp.UTC(), d.Timestamp.UTC())
	d.Timestamp = at.Timestamp
	require.Equal(t, at, d)
	require.Equal(t, 1, r.effects())
	require.Equal(t, 1, r.rows("dead"))
	require.Equal(t, 1, r.count(`select count(*) from millrace.audit where actor = 'ann' and reason = 'handler mended'
		and action = 'inbox.replay' and subject = 'a/e-1'`))
	require.ErrorIs(t, r.store.Replay(t.Context(), "a", "e-1", operator), inbox.ErrNotDead)
}

func TestTombstonesAndEmptyPayloadsStayApartInReplays(t *testing.T) {
	r := newRig(t)
	var calls atomicCounter
	stop := r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": failing(&calls)})
	r.deliver(event.New("order.deleted", nil, event.WithID("nil")), event.New("order.cleared", []byte{}, event.WithID("empty")))
	stop()
	type replayed struct {
		id      string
		payload []byte
	}
	seen := make(chan replayed, 2)
	r.replays("projection", r.chain(), func(msg *message.Message) error {
		seen <- replayed{msg.Metadata[event.IDKey], msg.Payload}
		return nil
	})
	r.replay("projection", "nil")
	r.replay("projection", "empty")
	require.ElementsMatch(t, []replayed{{"nil", nil}, {"empty", []byte{}}}, []replayed{<-seen, <-seen})
}

func TestAReplayThatFailsAgainIsDeadAgain(t *testing.T) {
	r := newRig(t)
	var calls atomicCounter
	chain := r.chain()
	stop := r.router(chain, map[string]message.NoPublishHandlerFunc{"projection": failing(&calls)})
	r.deliver(event.New("order.paid", nil, event.WithID("e-1")))
	stop()
	r.replays("projection", chain, failing(&calls))
	for n := 2; n <= 3; n++ {
		r.replay("projection", "e-1")
		r.eventually("select count(*) from millrace.inbox where state = 'dead' and deaths = $1 and attempts = $2", n, 4*n)
	}

	require.Equal(t, 12, calls.get())
	published := r.published()
	require.Len(t, published, 3)
	require.Equal(t, "dlq:projection:e-1:3", published[2].id)
	require.Equal(t, "projection", published[2].metadata[middleware.ConsumerPoisonedKey])
	require.Equal(t, "e-1", published[2].metadata[event.OriginalIDKey])
}

func TestTwoReplicasReplayingOneEventMakeOneEffect(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			var calls, handled atomicCounter
			stop := r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": failing(&calls)})
			r.deliver(event.New("order.paid", nil, event.WithID("e-1")))
			stop()

			// Both replicas hold the message before either handles it.
			gate := make(chan struct{})
			var arrived atomicCounter
			wait := func(h message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) {
					arrived.add()
					<-gate
					return h(msg)
				}
			}
			for range 2 {
				chain := r.chain()
				chain[len(chain)-1] = middleware.Dedup{DB: testkit.Open(t, driver, r.dsn)}.Middleware
				r.replays("projection", append([]message.HandlerMiddleware{wait}, chain...), func(msg *message.Message) error {
					handled.add()
					return write(msg)
				})
			}
			r.replay("projection", "e-1")
			require.Eventually(t, func() bool { return arrived.get() >= 2 }, patience, tick)
			close(gate)
			r.eventually("select count(*) from millrace.inbox where state = 'done'")
			require.Equal(t, 1, handled.get())
			require.Equal(t, 1, r.effects())
		})
	}
}

func TestARedeliveryWhileAnEventIsDeadOrParkedIsAcknowledgedUnhandled(t *testing.T) {
	r := newRig(t)
	var calls atomicCounter
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": failing(&calls)})
	msg := event.New("order.paid", nil, event.WithID("e-1"))
	r.deliver(msg, msg)
	r.replay("projection", "e-1")
	r.deliver(msg)
	require.Equal(t, 4, calls.get())
	require.Equal(t, 1, r.rows("parked"))
}

func TestDeadLettersUnderDerivedIDsCanBeReplayed(t *testing.T) {
	r := newRig(t)
	var calls atomicCounter
	stop := r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": func(msg *message.Message) error {
		if string(msg.Payload) == "no id" {
			return failing(&calls)(msg)
		}
		return nil
	}})
	r.deliver(event.New("order.paid", []byte("one"), event.WithID("e-1")), event.New("order.paid", []byte("other"), event.WithID("e-1")))
	r.deliver(r.at(message.NewMessage("x", []byte("no id")), event.Delivery{Topic: "orders", Offset: 1}))
	r.deliver(message.NewMessage("y", []byte("neither")))
	stop()
	dead := r.dead()
	require.Len(t, dead, 3)
	r.replays("projection", r.chain(), write)
	for _, d := range dead {
		r.replay("projection", d.EventID)
	}
	require.Eventually(t, func() bool { return r.rows("done") == 4 }, patience, tick)
	require.Equal(t, 3, r.effects())
	require.Equal(t, 1, r.count("select count(*) from effect where event_id = 'e-1'"), "a mismatch is replayed under the id it came with")
}
