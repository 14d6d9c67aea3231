package middleware_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/middleware"
)

func TestReturnedMessagesShareTheFateOfTheEffect(t *testing.T) {
	r := newRig(t)
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, nil)
	require.NoError(t, err)
	router.AddMiddleware(r.chain()...)
	direct := &recorder{}
	var calls atomicCounter
	router.AddHandler("projection", "orders", r.subscriber(), "invoices", direct, func(msg *message.Message) ([]*message.Message, error) {
		produced := message.NewMessage("", []byte("invoice"))
		if err := write(msg); err != nil || calls.add() == 1 {
			return []*message.Message{produced}, errFailed
		}
		return []*message.Message{produced, msg, event.New("order.noted", nil, event.WithID("own"), event.CausedBy("other"))}, nil
	})
	run(t, router)
	in := event.New("order.paid", []byte("{}"), event.WithID("e-1"), event.Meta(event.CorrelationIDKey, "c-1"),
		event.Meta(event.TraceparentKey, "trace"), event.Meta(event.TracestateKey, "state"))
	r.deliver(in, in)

	require.Equal(t, 2, calls.get(), "failed, succeeded; the second copy was not handled")
	require.Equal(t, 1, r.effects())
	require.Empty(t, direct.messages, "nothing is left for the router to publish")
	out := r.published()
	require.Len(t, out, 3)
	for _, row := range out {
		require.Equal(t, "invoices", row.topic)
		require.Equal(t, "c-1", row.metadata[event.CorrelationIDKey])
		require.Equal(t, "trace", row.metadata[event.TraceparentKey])
		require.Equal(t, "state", row.metadata[event.TracestateKey])
	}
	require.Equal(t, "e-1", out[0].metadata[event.CausationIDKey])
	require.Equal(t, "e-1", out[1].metadata[event.CausationIDKey])
	require.NotEqual(t, "e-1", out[1].id, "the incoming message passed on is another event")
	require.Equal(t, "own", out[2].id)
	require.Equal(t, "other", out[2].metadata[event.CausationIDKey])
}

func TestIDsOfReturnedMessagesAreTheSameForTheSameInput(t *testing.T) {
	r := newRig(t)
	ids := map[string]bool{}
	for range 2 {
		out := &recorder{}
		_, err := r.db.Exec("delete from millrace.inbox")
		require.NoError(t, err)
		_, err = middleware.Dedup{DB: r.db, Consumer: "projection", Outbox: out, OutboxTopic: "invoices"}.Middleware(
			func(*message.Message) ([]*message.Message, error) {
				return []*message.Message{message.NewMessage("", nil), message.NewMessage("", nil)}, nil
			})(event.New("order.paid", nil, event.WithID("e-1")))
		require.NoError(t, err)
		for _, msg := range out.messages {
			require.NoError(t, event.ValidateID(msg.Metadata[event.IDKey]))
			ids[msg.Metadata[event.IDKey]] = true
		}
	}
	require.Len(t, ids, 2)
}

func TestReturnedMessagesWithoutAnOutboxAreRefusedNotLost(t *testing.T) {
	r := newRig(t)
	handler := func(msg *message.Message) ([]*message.Message, error) {
		return []*message.Message{event.New("invoice.due", nil)}, write(msg)
	}
	_, err := middleware.Dedup{DB: r.db, Consumer: "projection"}.Middleware(handler)(event.New("order.paid", nil))
	require.ErrorIs(t, err, middleware.ErrNoOutbox)
	require.True(t, event.IsPermanent(err))
	_, err = middleware.Dedup{DB: r.db, Consumer: "projection", Outbox: r.outbox}.Middleware(handler)(event.New("order.paid", nil))
	require.ErrorIs(t, err, middleware.ErrNoOutboxTopic)
	require.Zero(t, r.effects())
}
