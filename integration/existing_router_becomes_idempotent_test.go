package integration_test

import (
	"testing"

	watermillkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/middleware"
)

// A router with the stock Kafka subscriber, as it is, and one line of ours.
func TestExistingRouterBecomesIdempotent(t *testing.T) {
	s := newSystem(t, 1)
	config := watermillkafka.DefaultSaramaSubscriberConfig()
	config.Consumer.Offsets.Initial = -2 // oldest
	subscriber, err := watermillkafka.NewSubscriber(watermillkafka.SubscriberConfig{
		Brokers: s.brokers, Unmarshaler: watermillkafka.DefaultMarshaler{}, OverwriteSaramaConfig: config, ConsumerGroup: s.name("group"),
	}, nil)
	require.NoError(t, err)
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	require.NoError(t, err)
	router.AddConsumerHandler("order-projection", s.topic, subscriber, apply("order-projection"))

	duplicates := make(chan string, 100)
	router.AddMiddleware(middleware.Dedup{DB: s.db, OnDuplicate: func(msg *message.Message) { duplicates <- msg.UUID }}.Middleware)

	run(t, router)
	messages, ids := orderEvents(10)
	for _, msg := range messages {
		s.produce(copyOf(msg, s.topic, 0), copyOf(msg, s.topic, 0), copyOf(msg, s.topic, 0))
	}
	for range 2 * len(ids) {
		<-duplicates
	}
	s.awaitEffects("order-projection", ids...)
}
