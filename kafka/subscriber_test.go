package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
)

func subscriber(t *testing.T, connection kafka.Connection, config kafka.SubscriberConfig) *kafka.Subscriber {
	t.Helper()
	config.Connection = connection
	if config.CloseTimeout == 0 {
		config.CloseTimeout = 5 * time.Second
	}
	s, err := kafka.NewSubscriber(config, nil)
	return closed(t, s, err)
}

func subscribe(t *testing.T, s *kafka.Subscriber, topic string) <-chan *message.Message {
	t.Helper()
	messages, err := s.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	return messages
}

func receive(t *testing.T, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-messages:
		require.True(t, ok, "closed")
		return msg
	case <-time.After(30 * time.Second):
		require.FailNow(t, "no message")
		return nil
	}
}

func offset(msg *message.Message) int64 {
	d, _ := event.DeliveryFromContext(msg.Context())
	return d.Offset
}

func publish(t *testing.T, topic string, messages ...*message.Message) {
	t.Helper()
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared}, nil)
	require.NoError(t, err)
	require.NoError(t, p.Publish(topic, messages...))
	require.NoError(t, p.Close())
}

func committedOffset(t *testing.T, group, topic string) int64 {
	t.Helper()
	offsets, err := admin(t, shared).FetchOffsets(t.Context(), group)
	require.NoError(t, err)
	o, ok := offsets.Lookup(topic, 0)
	if !ok {
		return -1
	}
	return o.At
}

func group() string { return "test-" + uuid.NewString() }

func TestSlowKeyHoldsUpOnlyItself(t *testing.T) {
	topic := newTopic(t, shared, 1, nil)
	publish(t, topic, keyed("slow", 0, 2)...)
	var others []*message.Message
	for i := range 1000 {
		others = append(others, event.New("test", fmt.Append(nil, i/50), event.PartitionKey(fmt.Sprint(i%50))))
	}
	publish(t, topic, others...)
	messages := subscribe(t, subscriber(t, shared, kafka.SubscriberConfig{ConsumerGroup: group(), MaxInFlight: 100}), topic)

	var slow *message.Message
	next := map[string]int{}
	for range 1001 {
		msg := receive(t, messages)
		key, _ := event.Key(msg)
		if key == "slow" {
			require.Nil(t, slow, "the second of the key before the first was acked")
			slow = msg
			continue
		}
		require.Equal(t, fmt.Sprint(next[key]), string(msg.Payload), "order of key %s", key)
		next[key]++
		msg.Ack()
	}
	slow.Ack()
	second := receive(t, messages)
	require.Equal(t, "1", string(second.Payload))
	second.Ack()
}

func TestAtMostParallelismMessagesAreInHand(t *testing.T) {
	topic := newTopic(t, shared, 3, nil)
	var sent []*message.Message
	for range 50 {
		sent = append(sent, event.New("test", nil))
	}
	publish(t, topic, sent...)
	messages := subscribe(t, subscriber(t, shared, kafka.SubscriberConfig{Parallelism: 4}), topic)
	var held []*message.Message
	for range 4 {
		held = append(held, receive(t, messages))
	}
	select {
	case <-messages:
		require.FailNow(t, "a fifth message")
	case <-time.After(200 * time.Millisecond):
	}
	for _, msg := range held {
		msg.Ack()
	}
	for range 46 {
		receive(t, messages).Ack()
	}
}

func TestNackComesBackBeforeItsSuccessors(t *testing.T) {
	topic := newTopic(t, shared, 1, nil)
	publish(t, topic, keyed("k", 0, 3)...)
	messages := subscribe(t, subscriber(t, shared, kafka.SubscriberConfig{NackResendDelay: 10 * time.Millisecond}), topic)
	first := receive(t, messages)
	require.Equal(t, "0", string(first.Payload))
	first.Nack()
	<-first.Context().Done()
	for _, expected := range numbers(0, 3) {
		msg := receive(t, messages)
		require.Equal(t, expected, string(msg.Payload))
		msg.Ack()
	}
}

func TestCommitNeverPassesAnUnhandledMessage(t *testing.T) {
	topic, name := newTopic(t, shared, 1, nil), group()
	var sent []*message.Message
	for i := range 100 {
		sent = append(sent, event.New("test", fmt.Append(nil, i), event.PartitionKey(fmt.Sprint(i))))
	}
	publish(t, topic, sent...)
	config := kafka.SubscriberConfig{ConsumerGroup: name, CommitInterval: 100 * time.Millisecond, CloseTimeout: 300 * time.Millisecond}
	first := subscriber(t, shared, config)
	messages := subscribe(t, first, topic)
	var held *message.Message
	for range 100 {
		msg := receive(t, messages)
		if offset(msg) == 40 {
			held = msg
			continue
		}
		msg.Ack()
	}
	require.Eventually(t, func() bool { return committedOffset(t, name, topic) == 40 }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, held.Context().Err())
	require.NoError(t, first.Close())
	require.Error(t, held.Context().Err(), "Close gave up on it")
	require.EqualValues(t, 40, committedOffset(t, name, topic))

	again := subscribe(t, subscriber(t, shared, config), topic)
	seen := map[int64]bool{}
	for len(seen) < 60 {
		msg := receive(t, again)
		require.GreaterOrEqual(t, offset(msg), int64(40))
		seen[offset(msg)] = true
		msg.Ack()
	}
	require.Eventually(t, func() bool { return committedOffset(t, name, topic) == 100 }, 10*time.Second, 10*time.Millisecond)
}

func TestCloseWaitsForMessagesInHand(t *testing.T) {
	topic, name := newTopic(t, shared, 1, nil), group()
	publish(t, topic, keyed("k", 0, 2)...)
	s := subscriber(t, shared, kafka.SubscriberConfig{ConsumerGroup: name})
	messages := subscribe(t, s, topic)
	msg := receive(t, messages)
	ended := make(chan error)
	go func() { ended <- s.Close() }()
	require.Eventually(t, func() bool {
		_, err := s.Subscribe(t.Context(), topic)
		return err != nil
	}, 10*time.Second, time.Millisecond)
	_, err := s.Subscribe(t.Context(), topic)
	require.ErrorIs(t, err, kafka.ErrClosed)
	require.ErrorIs(t, s.SubscribeInitialize(topic), kafka.ErrClosed)
	require.NoError(t, msg.Context().Err(), "its handler may finish")
	msg.Ack()
	require.NoError(t, <-ended)
	require.EqualValues(t, 1, committedOffset(t, name, topic))
	_, open := <-messages
	require.False(t, open)
}

func TestDoneContextEndsTheSubscription(t *testing.T) {
	topic, name := newTopic(t, shared, 1, nil), group()
	publish(t, topic, keyed("k", 0, 2)...)
	ctx, cancel := context.WithCancel(t.Context())
	messages, err := subscriber(t, shared, kafka.SubscriberConfig{ConsumerGroup: name}).Subscribe(ctx, topic)
	require.NoError(t, err)
	msg := receive(t, messages)
	cancel()
	require.NoError(t, msg.Context().Err(), "its handler may finish: Watermill's router ends this context to close")
	msg.Ack()
	_, open := <-messages
	require.False(t, open)
	require.EqualValues(t, 1, committedOffset(t, name, topic))
}

type picky struct{ kafka.Marshaler }

func (p picky) Unmarshal(record *sarama.ConsumerMessage) (*message.Message, error) {
	switch string(record.Value) {
	case "garbage":
		return nil, fmt.Errorf("not an event")
	case "panic":
		panic("garbage")
	}
	return p.Marshaler.Unmarshal(record)
}

func TestUndecodableRecordIsEmittedAsItIs(t *testing.T) {
	topic, name := newTopic(t, shared, 1, nil), group()
	headers := []kgo.RecordHeader{{Key: "text", Value: []byte("x")}, {Key: "bytes", Value: []byte{0xff}}, {Key: event.IDKey, Value: []byte("of-the-good-one")}}
	produceRaw(t, shared,
		&kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("garbage"), Headers: headers},
		&kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("panic")},
		&kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("bad id"), Headers: []kgo.RecordHeader{{Key: event.IDKey, Value: []byte{7}}}},
		&kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("good"), Headers: headers[2:]})
	messages := subscribe(t, subscriber(t, shared, kafka.SubscriberConfig{
		ConsumerGroup: name, Unmarshaler: picky{}, CommitInterval: 100 * time.Millisecond,
	}), topic)
	ids := map[string]bool{}
	for _, expected := range []string{"garbage", "panic", "bad id"} {
		msg := receive(t, messages)
		require.Equal(t, expected, string(msg.Payload))
		d, _ := event.DeliveryFromContext(msg.Context())
		require.Error(t, d.Undecodable)
		require.Equal(t, "k", string(d.Key))
		require.Equal(t, event.DeriveID(d, msg.Payload), msg.Metadata[event.IDKey])
		if expected == "garbage" {
			require.Equal(t, message.Metadata{"text": "x", event.IDKey: msg.Metadata[event.IDKey]}, msg.Metadata)
		}
		ids[msg.Metadata[event.IDKey]] = true
		msg.Ack()
	}
	require.Len(t, ids, 3)
	good := receive(t, messages)
	require.Equal(t, "of-the-good-one", good.Metadata[event.IDKey])
	good.Ack()
	require.Eventually(t, func() bool { return committedOffset(t, name, topic) == 4 }, 10*time.Second, 10*time.Millisecond)
}

// One member after the other joins and leaves while messages flow: every message is handled, and none twice.
func TestRebalanceLosesNothing(t *testing.T) {
	topic, name := newTopic(t, shared, 6, nil), group()
	published := make(chan int)
	stop := make(chan struct{})
	go func() {
		p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared}, nil)
		sent := 0
		for err == nil {
			select {
			case <-stop:
				_ = p.Close()
				published <- sent
				return
			default:
			}
			err = p.Publish(topic, event.New("test", nil, event.PartitionKey(fmt.Sprint(sent%60))))
			sent++
		}
		published <- -1
	}()

	var mu sync.Mutex
	seen := map[string]int{}
	var handlers sync.WaitGroup
	join := func() (*kafka.Subscriber, func() int) {
		s := subscriber(t, shared, kafka.SubscriberConfig{ConsumerGroup: name, CommitInterval: 100 * time.Millisecond})
		messages := subscribe(t, s, topic)
		own := 0
		handlers.Go(func() {
			for msg := range messages {
				mu.Lock()
				seen[msg.UUID]++
				own++
				mu.Unlock()
				msg.Ack()
			}
		})
		return s, func() int {
			mu.Lock()
			defer mu.Unlock()
			return own
		}
	}
	works := func(handled func() int) {
		t.Helper()
		require.Eventually(t, func() bool { return handled() > 50 }, 30*time.Second, time.Millisecond)
	}
	a, handledByA := join()
	works(handledByA)
	b, handledByB := join()
	works(handledByB)
	require.NoError(t, a.Close())
	c, handledByC := join()
	works(handledByC)
	close(stop)
	sent := <-published
	require.Positive(t, sent)
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
	require.Eventually(t, func() bool { return count() == sent }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, b.Close())
	require.NoError(t, c.Close())
	handlers.Wait()
	for id, n := range seen {
		require.Equal(t, 1, n, "%s: an orderly hand-over handles nothing twice", id)
	}
}

func TestLostPartitionIsNotCommitted(t *testing.T) {
	cluster, connection := faulty(t)
	require.NoError(t, cluster.CreateTopic("t", 1, nil))
	produceRaw(t, connection, &kgo.Record{Topic: "t", Value: []byte("x")})
	messages := subscribe(t, subscriber(t, connection, kafka.SubscriberConfig{ConsumerGroup: "g", CommitInterval: 100 * time.Millisecond}), "t")
	first := receive(t, messages)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.UnknownMemberID})
	select {
	case <-first.Context().Done():
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the handler is not told")
	}
	first.Ack() // too late to count
	second := receive(t, messages)
	require.Equal(t, first.UUID, second.UUID)
	second.Ack()
}

func TestHandOverWaitsForMessagesInHand(t *testing.T) {
	topic, name := newTopic(t, shared, 2, nil), group()
	for partition := range int32(2) {
		produceRaw(t, shared, &kgo.Record{Topic: topic, Partition: partition, Value: []byte{byte(partition)}})
	}
	first := subscribe(t, subscriber(t, shared, kafka.SubscriberConfig{ConsumerGroup: name}), topic)
	held := []*message.Message{receive(t, first), receive(t, first)}
	second := subscribe(t, subscriber(t, shared, kafka.SubscriberConfig{ConsumerGroup: name}), topic)
	select {
	case <-second:
		require.FailNow(t, "taken over while in hand")
	case <-time.After(time.Second):
	}
	for _, msg := range held {
		require.NoError(t, msg.Context().Err())
		msg.Ack()
	}
	// One partition moves; its next record is handled by the second member, the first record by nobody again.
	for partition := range int32(2) {
		produceRaw(t, shared, &kgo.Record{Topic: topic, Partition: partition, Value: []byte("next")})
	}
	for range 2 {
		select {
		case msg := <-first:
			require.Equal(t, "next", string(msg.Payload))
			msg.Ack()
			first = nil
		case msg := <-second:
			require.Equal(t, "next", string(msg.Payload))
			msg.Ack()
			second = nil
		case <-time.After(30 * time.Second):
			require.FailNow(t, "no message")
		}
	}
}

func TestGroupThatStartsLateSkipsNothing(t *testing.T) {
	topic := newTopic(t, shared, 1, nil)
	publish(t, topic, keyed("k", 0, 3)...)
	oldest := subscribe(t, subscriber(t, shared, kafka.SubscriberConfig{ConsumerGroup: group()}), topic)
	for _, expected := range numbers(0, 3) {
		msg := receive(t, oldest)
		require.Equal(t, expected, string(msg.Payload))
		msg.Ack()
	}
}

func TestNewestIsAChoice(t *testing.T) {
	topic, name := newTopic(t, shared, 1, nil), group()
	publish(t, topic, keyed("k", 0, 3)...)
	messages := subscribe(t, subscriber(t, shared, kafka.SubscriberConfig{ConsumerGroup: name, Start: kafka.StartNewest}), topic)
	var got *message.Message
	require.Eventually(t, func() bool {
		publish(t, topic, keyed("k", 3, 1)...)
		select {
		case got = <-messages:
			return true
		default:
			return false
		}
	}, 30*time.Second, 50*time.Millisecond)
	require.Equal(t, "3", string(got.Payload))
	got.Ack()
}

func TestWithoutGroupNothingIsCommitted(t *testing.T) {
	topic := newTopic(t, shared, 3, nil)
	publish(t, topic, event.New("test", nil), event.New("test", nil), event.New("test", nil))
	for range 2 {
		s := subscriber(t, shared, kafka.SubscriberConfig{})
		messages := subscribe(t, s, topic)
		for range 3 {
			receive(t, messages).Ack()
		}
		require.NoError(t, s.Close())
	}
}

func TestSubscribeInitializeCreatesTheTopicOnce(t *testing.T) {
	topic := "test-" + uuid.NewString()
	s := subscriber(t, shared, kafka.SubscriberConfig{InitializePartitions: 4, InitializeReplication: 1})
	require.NoError(t, s.SubscribeInitialize(topic))
	require.NoError(t, s.SubscribeInitialize(topic))
	require.ErrorIs(t, s.SubscribeInitialize("a b"), event.ErrInvalid)
	topics, err := admin(t, shared).ListTopics(t.Context(), topic)
	require.NoError(t, err)
	require.Len(t, topics[topic].Partitions, 4)
}

func TestCloseUnderLoadEndsEverySubscription(t *testing.T) {
	topic := newTopic(t, shared, 6, nil)
	var sent []*message.Message
	for i := range 2000 {
		sent = append(sent, event.New("test", nil, event.PartitionKey(fmt.Sprint(i%100))))
	}
	publish(t, topic, sent...)
	for range 3 {
		s := subscriber(t, shared, kafka.SubscriberConfig{ConsumerGroup: group(), MaxInFlight: 20, CloseTimeout: time.Second})
		var readers sync.WaitGroup
		for range 3 {
			messages := subscribe(t, s, topic)
			for range 3 {
				readers.Go(func() {
					for msg := range messages {
						if offset(msg)%7 == 0 {
							msg.Nack()
						} else {
							msg.Ack()
						}
					}
				})
			}
		}
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() { _ = s.Close() })
		}
		closers.Wait()
		readers.Wait()
	}
}
