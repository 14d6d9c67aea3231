package kafka_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/kafka"
)

func pubSub(t *testing.T, config kafka.SubscriberConfig) (message.Publisher, message.Subscriber) {
	t.Helper()
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared}, nil)
	require.NoError(t, err)
	config.Connection = shared
	config.CloseTimeout = 50 * time.Millisecond // the suite closes with messages in hand
	config.NackResendDelay = time.Millisecond
	subscriber, err := kafka.NewSubscriber(config, nil)
	require.NoError(t, err)
	t.Cleanup(func() { // the suite leaves some open
		require.NoError(t, publisher.Close())
		require.NoError(t, subscriber.Close())
	})
	return publisher, subscriber
}

func conformance(t *testing.T, features tests.Features, config kafka.SubscriberConfig) {
	t.Helper()
	tests.TestPubSub(t, features,
		func(t *testing.T) (message.Publisher, message.Subscriber) {
			config := config
			config.ConsumerGroup = "test-" + uuid.NewString()
			return pubSub(t, config)
		},
		func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
			config := config
			config.ConsumerGroup = group
			return pubSub(t, config)
		})
}

// The suite's messages have no key, so that handling them in parallel keeps no order among them.
func TestPubSubInParallel(t *testing.T) {
	conformance(t, tests.Features{
		ConsumerGroups:                   true,
		Persistent:                       true,
		NewSubscriberReceivesOldMessages: true,
	}, kafka.SubscriberConfig{InitializePartitions: 6})
}

func TestPubSubInOrder(t *testing.T) {
	conformance(t, tests.Features{
		ConsumerGroups:                      true,
		GuaranteedOrder:                     true,
		GuaranteedOrderWithSingleSubscriber: true,
		Persistent:                          true,
		NewSubscriberReceivesOldMessages:    true,
	}, kafka.SubscriberConfig{InitializePartitions: 1, Parallelism: 1})
}
