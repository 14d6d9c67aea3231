package integration_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/middleware"
	"github.com/millrace-go/millrace/pipeline"
)

func TestTheSameEventThreeTimesActsOnce(t *testing.T) {
	s := newSystem(t, 1)
	consumer := s.name("projection")
	messages, ids := orderEvents(100)
	var records []*kgo.Record
	for i, msg := range messages {
		records = append(records, copyOf(msg, s.topic, 0))
		if i == 50 {
			records = append(records, copyOf(msg, s.topic, 0), copyOf(msg, s.topic, 0))
		}
	}
	s.produce(records...)
	var calls counter
	s.consume(consumer, s.topic, func(msg *message.Message) error {
		calls.add(msg.UUID)
		return effect(msg.Context(), consumer, msg)
	})
	s.awaitCommitted(consumer, s.topic)
	s.awaitEffects(consumer, ids...)
	require.Equal(t, 1, calls.of(messages[50].UUID))
	require.Empty(t, s.dead(consumer))
}

// Two members of a group get a copy each, on two partitions, and both hold it at the same moment: one waits for the other
// in the database and finds that there is nothing left to do. No attempt is spent on that.
func TestTwoCopiesAtTheSameInstantActOnce(t *testing.T) {
	s := newSystem(t, 2)
	consumer := s.name("projection")
	const pairs = 20
	var handled, arrived counter
	both := map[string]chan struct{}{} // closed when both copies are in the hands of their members
	messages, ids := orderEvents(pairs)
	for _, id := range ids {
		both[id] = make(chan struct{})
	}
	for range 2 {
		p := s.pipeline(pipeline.Config{ConsumeOnly: true})
		p.Router().AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				if arrived.add(msg.UUID) == 2 {
					close(both[msg.UUID])
				}
				return h(msg)
			}
		})
		require.NoError(t, p.Handle(consumer, s.topic, func(msg *message.Message) error {
			handled.add(msg.UUID)
			<-both[msg.UUID]
			return effect(msg.Context(), consumer, msg)
		}))
		s.start(p)
	}
	s.awaitMembers(consumer, 2)
	for _, msg := range messages {
		s.produce(copyOf(msg, s.topic, 0), copyOf(msg, s.topic, 1))
	}
	s.awaitCommitted(consumer, s.topic)
	s.awaitEffects(consumer, ids...)
	for _, id := range ids {
		require.Equal(t, 1, handled.of(id))
		require.Equal(t, 2, arrived.of(id), "delivered once each, so not failed")
	}
	require.Empty(t, s.dead(consumer))
}

// Two groups with their inboxes in one database: the first one's mark does not make the second skip.
func TestTwoGroupsHaveOneEffectEach(t *testing.T) {
	s := newSystem(t, 1)
	first, second := s.name("first"), s.name("second")
	msg := orderEvent("7", 1)
	s.produce(copyOf(msg, s.topic, 0), copyOf(msg, s.topic, 0))
	for _, consumer := range []string{first, second} {
		s.consume(consumer, s.topic, apply(consumer))
	}
	for _, consumer := range []string{first, second} {
		s.awaitCommitted(consumer, s.topic)
		s.awaitEffects(consumer, msg.UUID)
	}
}

// Two handlers on a router of the user's own share one group: each is a consumer of its own.
func TestTwoHandlersInOneGroupHaveOneEffectEach(t *testing.T) {
	s := newSystem(t, 2)
	group := s.name("group")
	msg := orderEvent("7", 1)
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	require.NoError(t, err)
	router.AddMiddleware(middleware.Dedup{DB: s.db}.Middleware)
	for _, handler := range []string{"first", "second"} {
		subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
			Connection: kafka.Connection{Brokers: s.brokers}, ConsumerGroup: group, CommitInterval: 100 * time.Millisecond,
		}, nil)
		require.NoError(t, err)
		router.AddConsumerHandler(handler, s.topic, subscriber, apply(handler))
	}
	run(t, router)
	s.awaitMembers(group, 2) // each has a partition
	s.produce(copyOf(msg, s.topic, 0), copyOf(msg, s.topic, 1), copyOf(msg, s.topic, 0), copyOf(msg, s.topic, 1))
	s.awaitCommitted(group, s.topic)
	s.awaitEffects("first", msg.UUID)
	s.awaitEffects("second", msg.UUID)
}

// run runs a router until the test ends.
func run(t *testing.T, router *message.Router) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	t.Cleanup(sync.OnceFunc(func() {
		require.NoError(t, router.Close())
		require.NoError(t, <-ended)
	}))
	<-router.Running()
}

func TestRecordsWithoutEventIDAreNotOneEvent(t *testing.T) {
	s := newSystem(t, 1)
	consumer := s.name("projection")
	s.produce(&kgo.Record{Topic: s.topic, Value: []byte("first")}, &kgo.Record{Topic: s.topic, Value: []byte("second")})
	s.consume(consumer, s.topic, apply(consumer))
	s.awaitCommitted(consumer, s.topic)
	require.ElementsMatch(t, []string{"first", "second"}, s.column("select convert_from(payload, 'UTF8') from effect"))

	expected := []string{}
	for _, record := range testkit.ReadTopic(t, s.topic) {
		d := event.Delivery{Topic: s.topic, Partition: record.Partition, Offset: record.Offset, Timestamp: record.Timestamp}
		expected = append(expected, event.DeriveID(d, record.Value))
	}
	s.awaitEffects(consumer, expected...)
}
