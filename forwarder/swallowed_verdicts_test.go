package forwarder_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
)

// A poison-like middleware turns an error into nil: that acknowledges nothing.
func TestMiddlewareThatSwallowsErrorsAcknowledgesNothing(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		publish(t, db, "orders", orderEvent(1, 1), orderEvent(1, 2))
		wire.refuse = func(string, *message.Message) error { return errors.New("broker says no") }
		swallow := func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				_, err := h(msg)
				_ = err
				return nil, nil
			}
		}
		f := newForwarder(t, db, publisher, forwarder.Config{Middlewares: []message.HandlerMiddleware{swallow}})
		sent, err := f.RunOnce(t.Context(), 10)
		require.ErrorContains(t, err, "broker says no")
		require.Zero(t, sent)
		require.Equal(t, 2, pending(t, db))

		wire.refuse = nil
		sent, err = f.RunOnce(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 2, sent)
		require.Equal(t, 2, inOrder(t, wire))
		once(t, wire)
	})
}

func TestMiddlewareThatForgetsToPublishLeavesTheEventPending(t *testing.T) {
	db := testkit.Migrated(t)
	publish(t, db, "orders", orderEvent(1, 1))
	wire := &recorder{}
	var forget atomic.Bool
	forget.Store(true)
	forgetful := func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if forget.Load() {
				return nil, nil
			}
			return h(msg)
		}
	}
	f := newForwarder(t, db, wire, forwarder.Config{Middlewares: []message.HandlerMiddleware{forgetful}})
	sent, err := f.RunOnce(t.Context(), 10)
	require.ErrorContains(t, err, "a middleware returned without publishing the event")
	require.Zero(t, sent)
	forget.Store(false)
	sent, err = f.RunOnce(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, sent)
}

// A retrying middleware sees single events as they were published, and its second try is not refused as one too late.
func TestMiddlewareMayTryAgain(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		for version := 1; version <= 5; version++ {
			publish(t, db, "orders", orderEvent(1, version))
		}
		var refused int
		wire.refuse = func(_ string, msg *message.Message) error {
			if msg.UUID == "order-1-3" && refused < 2 {
				refused++
				return errors.New("not now")
			}
			return nil
		}
		var seen []string
		again := func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) (out []*message.Message, err error) {
				seen = append(seen, msg.Metadata["event_id"])
				for range 3 {
					if out, err = h(msg); err == nil {
						return out, nil
					}
				}
				return out, err
			}
		}
		f := newForwarder(t, db, publisher, forwarder.Config{Middlewares: []message.HandlerMiddleware{again}})
		sent, err := f.RunOnce(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 5, sent)
		require.Equal(t, []string{"order-1-1", "order-1-2", "order-1-3", "order-1-4", "order-1-5"}, seen)
		require.Equal(t, 5, inOrder(t, wire))
		once(t, wire)
	})
}
