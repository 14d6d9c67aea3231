package integration_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/middleware"
	"github.com/millrace-go/millrace/outbox"
)

type orderPaid struct{ Order string }

// Watermill's event bus publishes in the caller's transaction, and its event processor handles once.
func TestCQRSNeedsNoAdapter(t *testing.T) {
	s := newSystem(t, 1)
	bus, err := cqrs.NewEventBusWithConfig(s.outbox, cqrs.EventBusConfig{
		GeneratePublishTopic: func(cqrs.GenerateEventPublishTopicParams) (string, error) { return s.topic, nil },
		Marshaler:            cqrs.JSONMarshaler{},
	})
	require.NoError(t, err)
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	require.NoError(t, err)
	router.AddMiddleware(middleware.Dedup{DB: s.db}.Middleware)
	processor, err := cqrs.NewEventProcessorWithConfig(router, cqrs.EventProcessorConfig{
		GenerateSubscribeTopic: func(cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) { return s.topic, nil },
		SubscriberConstructor: func(params cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return kafka.NewSubscriber(kafka.SubscriberConfig{
				Connection: kafka.Connection{Brokers: s.brokers}, ConsumerGroup: s.name(params.HandlerName), CommitInterval: 100 * time.Millisecond,
			}, nil)
		},
		Marshaler: cqrs.JSONMarshaler{},
	})
	require.NoError(t, err)
	require.NoError(t, processor.AddHandlers(cqrs.NewEventHandler("order-projection", func(ctx context.Context, e *orderPaid) error {
		return effect(ctx, "order-projection", cqrs.OriginalMessageFromCtx(ctx))
	})))
	run(t, router)

	pay := func(end error) error {
		return outbox.InTx(context.Background(), s.db, func(ctx context.Context, _ *sql.Tx) error {
			if err := bus.Publish(ctx, &orderPaid{Order: "7"}); err != nil {
				return err
			}
			return end
		})
	}
	require.ErrorIs(t, pay(errFailed), errFailed)
	require.NoError(t, pay(nil))
	require.ErrorIs(t, bus.Publish(context.Background(), &orderPaid{}), outbox.ErrNoTx)
	require.Equal(t, 1, s.relayOnce())
	ids := s.wire()
	require.Len(t, ids, 1)
	require.NoError(t, event.ValidateID(ids[0]))
	s.awaitCommitted(s.name("order-projection"), s.topic)
	s.awaitEffects("order-projection", ids...)
}
