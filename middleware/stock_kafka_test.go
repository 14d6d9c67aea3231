package middleware_test

import (
	"testing"

	watermillkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/middleware"
)

// An adopter's router: the stock subscriber, records of a plain producer without any header, and our middleware.
func TestRecordsOfAPlainProducerThroughTheStockSubscriberAreNotOneEvent(t *testing.T) {
	r := newRig(t)
	brokers, topic := testkit.Kafka(t), testkit.Topic(t, 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(),
		&kgo.Record{Topic: topic, Value: []byte("first"), Key: []byte("k")},
		&kgo.Record{Topic: topic, Value: []byte("second")},
		&kgo.Record{Topic: topic, Value: []byte("dead"), Key: []byte("k")},
	).FirstErr())

	config := watermillkafka.DefaultSaramaSubscriberConfig()
	config.Consumer.Offsets.Initial = -2 // oldest
	subscriber, err := watermillkafka.NewSubscriber(watermillkafka.SubscriberConfig{
		Brokers: brokers, Unmarshaler: watermillkafka.DefaultMarshaler{}, OverwriteSaramaConfig: config, ConsumerGroup: topic,
	}, nil)
	require.NoError(t, err)
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, nil)
	require.NoError(t, err)
	router.AddMiddleware(middleware.DeadLetter{DB: r.db, Publisher: r.outbox}.Middleware, middleware.Retry{MaxRetries: middleware.NoRetries}.Middleware)
	router.AddMiddleware(middleware.Dedup{DB: r.db}.Middleware)
	router.AddConsumerHandler("projection", topic, subscriber, func(msg *message.Message) error {
		if string(msg.Payload) == "dead" {
			return errFailed
		}
		return write(msg)
	})
	run(t, router)

	require.Eventually(t, func() bool { return r.count("select count(*) from millrace.inbox") == 3 }, patience, tick)
	require.Equal(t, 2, r.effects())
	require.Equal(t, 3, r.count("select count(distinct kafka_offset) from millrace.inbox where event_id like 'derived:%' and topic = $1 and record_time is not null", topic))
	dead := r.dead()
	require.Len(t, dead, 1)
	require.Equal(t, []byte("k"), dead[0].Key)
	require.Equal(t, topic+".dlq", r.published()[0].topic)
}
