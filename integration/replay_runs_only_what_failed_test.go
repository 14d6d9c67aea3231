package integration_test

import (
	"context"
	"database/sql"
	"maps"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/pipeline"
)

// call is what a handler was given.
type call struct {
	delivery event.Delivery
	metadata message.Metadata
	payload  string
}

// patient is a handler that fails until it is mended and remembers its calls.
type patient struct {
	consumer string
	mutex    sync.Mutex
	mended   bool
	calls    []call
}

func (h *patient) handle(ctx context.Context, _ *sql.Tx, msg *message.Message) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	d, _ := event.DeliveryFromContext(ctx)
	d.Timestamp = d.Timestamp.UTC()
	h.calls = append(h.calls, call{d, maps.Clone(msg.Metadata), string(msg.Payload)})
	if !h.mended {
		return errFailed
	}
	return effect(ctx, h.consumer, msg)
}

func (h *patient) mend() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.mended = true
}

func TestReplayRunsOnlyWhatFailedAndAsItWas(t *testing.T) {
	s := newSystem(t, 3)
	failing, working := s.name("failing"), s.name("working")
	broken := &patient{consumer: failing}
	p := s.pipeline(pipeline.Config{Retry: noRetries})
	require.NoError(t, p.Handle(failing, s.topic, handlers.Raw(broken.handle)))
	require.NoError(t, p.Handle(working, s.topic, apply(working)))
	s.start(p)
	msg := event.New("order.paid", []byte(`{"a":1}`), event.Aggregate("order", "7", 1), event.WithID("E"), event.Meta("own", "header"))
	s.publish(s.topic, msg)
	s.awaitInbox(failing, "dead", 1)
	s.awaitEffects(working, "E")

	broken.mend()
	s.replay(failing, "E")
	s.awaitEffects(failing, "E")
	require.ErrorIs(t, s.inbox.Replay(context.Background(), failing, "E", inbox.By{Actor: "test", Reason: "again"}), inbox.ErrNotDead)
	s.awaitEffects(working, "E") // still one
	require.Len(t, broken.calls, 2)
	require.Equal(t, broken.calls[0], broken.calls[1], "same coordinates, key, headers and payload")
	require.Equal(t, s.topic, broken.calls[1].delivery.Topic)
	require.Equal(t, "7", string(broken.calls[1].delivery.Key))
	require.Equal(t, "header", broken.calls[1].metadata["own"])
	require.Equal(t, 1, s.count("select count(*) from millrace.outbox where topic = $1", s.topic), "a replay is not sent again")
}

// One event dies in two handlers: two dead letters, and the replay of one runs that one.
func TestTheSameEventDiesOncePerConsumer(t *testing.T) {
	s := newSystem(t, 1)
	first, second := &patient{consumer: s.name("first")}, &patient{consumer: s.name("second")}
	p := s.pipeline(pipeline.Config{Retry: noRetries})
	for _, h := range []*patient{first, second} {
		require.NoError(t, p.Handle(h.consumer, s.topic, handlers.Raw(h.handle)))
	}
	s.start(p)
	s.publish(s.topic, event.New("order.paid", nil, event.WithID("E")))
	s.awaitInbox(first.consumer, "dead", 1)
	s.awaitInbox(second.consumer, "dead", 1)
	require.Equal(t, 2, s.count("select count(*) from millrace.outbox where topic = $1", s.topic+".dlq"))

	first.mend()
	second.mend()
	s.replay(first.consumer, "E")
	s.awaitEffects(first.consumer, "E")
	require.Len(t, first.calls, 2)
	require.Len(t, second.calls, 1)
	require.Len(t, s.dead(second.consumer), 1)
}
