package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
)

func TestReceiptsAreWhereTheRecordsAre(t *testing.T) {
	for _, compression := range []kafka.Compression{"", kafka.CompressionGzip, kafka.CompressionSnappy, kafka.CompressionLz4, kafka.CompressionZstd} {
		t.Run(string(compression), func(t *testing.T) {
			p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared, Compression: compression, ChunkSize: 100}, nil)
			closed(t, p, err)
			topic := newTopic(t, shared, 3, nil)
			var messages []*message.Message
			for i := range 1000 {
				messages = append(messages, event.New("test", bytes.Repeat(fmt.Append(nil, i), i%40), event.PartitionKey(fmt.Sprint(i%20))))
			}
			at := map[event.Receipt]*message.Message{}
			for i, r := range produce(t, p, topic, 1, messages...) {
				require.NoError(t, r.err)
				at[r.receipt] = messages[i]
			}
			records := readTopic(t, shared, topic)
			require.Len(t, records, len(messages))
			for _, record := range records {
				msg := at[event.Receipt{Partition: record.Partition, Offset: record.Offset}]
				require.NotNil(t, msg)
				require.Equal(t, string(msg.Payload), string(record.Value))
				require.Equal(t, msg.Metadata[event.PartitionKeyKey], string(record.Key))
			}
		})
	}
}

func TestRefusedMessageLetsNoSuccessorPass(t *testing.T) {
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared, MaxMessageBytes: 10_000, ChunkSize: 7}, nil)
	closed(t, p, err)
	topic := newTopic(t, shared, 1, nil)
	messages := keyed("k", 0, 30)
	messages[20] = event.New("test", make([]byte, 10_000), event.PartitionKey("k"))

	results := produce(t, p, topic, 1, messages...)
	for i, r := range results {
		switch {
		case i < 20:
			require.NoError(t, r.err)
			require.EqualValues(t, i, r.receipt.Offset)
		case i == 20:
			require.ErrorIs(t, r.err, kafka.ErrTooLarge)
			require.True(t, event.IsPermanent(r.err))
		default:
			require.ErrorIs(t, r.err, event.ErrNotAttempted)
		}
	}
	require.ErrorIs(t, produce(t, p, topic, 1, keyed("k", 99, 1)...)[0].err, event.ErrNotAttempted, "a late one of the same generation")
	require.Equal(t, numbers(0, 20), payloads(t, shared, topic))

	for _, r := range produce(t, p, topic, 2, messages[21:]...) {
		require.NoError(t, r.err)
	}
	require.Equal(t, append(numbers(0, 20), numbers(21, 9)...), payloads(t, shared, topic))
}

func TestMarshalErrorLetsNoSuccessorPass(t *testing.T) {
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared}, nil)
	closed(t, p, err)
	topic := newTopic(t, shared, 6, nil)
	messages := keyed("k", 0, 3)
	messages[1].Metadata["_watermill_message_uuid"] = "x"
	results := produce(t, p, topic, 1, messages...)
	require.NoError(t, results[0].err)
	require.True(t, event.IsPermanent(results[1].err))
	require.ErrorIs(t, results[2].err, event.ErrNotAttempted)
}

func TestLargestRecordThatFitsIsSent(t *testing.T) {
	const limit = 5000
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared, MaxMessageBytes: limit}, nil)
	closed(t, p, err)
	setting := fmt.Sprint(limit)
	topic := newTopic(t, shared, 1, map[string]*string{"max.message.bytes": &setting})
	sent := 0
	for size := limit; size > 0; size-- {
		r := produce(t, p, topic, uint64(limit-size+1), event.New("test", make([]byte, size), event.PartitionKey("k")))[0]
		if sent++; r.err == nil {
			break
		}
		require.ErrorIs(t, r.err, kafka.ErrTooLarge)
		require.NotContains(t, r.err.Error(), "MESSAGE_TOO_LARGE", "the limits agree to the byte")
	}
	require.Greater(t, sent, 1)
	require.Len(t, readTopic(t, shared, topic), 1)
}

func TestTooLargeForTheTopicIsFoundByHalving(t *testing.T) {
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared}, nil)
	closed(t, p, err)
	setting := "20000"
	topic := newTopic(t, shared, 1, map[string]*string{"max.message.bytes": &setting})
	messages := keyed("k", 0, 900) // some 200 kB: every full batch is refused
	messages[500] = event.New("test", make([]byte, 30_000), event.PartitionKey("k"))
	for i, r := range produce(t, p, topic, 1, messages...) {
		switch {
		case i < 500:
			require.NoError(t, r.err)
		case i == 500:
			require.ErrorIs(t, r.err, kafka.ErrTooLarge)
			require.True(t, event.IsPermanent(r.err))
		default:
			require.ErrorIs(t, r.err, event.ErrNotAttempted)
		}
	}
	require.Equal(t, numbers(0, 500), payloads(t, shared, topic))
}

func TestPublishCallsDoNotHoldEachOtherUp(t *testing.T) {
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared, MaxMessageBytes: 10_000}, nil)
	closed(t, p, err)
	topic := newTopic(t, shared, 1, nil)
	messages := keyed("k", 0, 3)
	messages[1] = event.New("test", make([]byte, 10_000), event.PartitionKey("k"), event.WithID("too-large"))
	err = p.Publish(topic, messages...)
	require.ErrorIs(t, err, kafka.ErrTooLarge)
	require.ErrorIs(t, err, event.ErrNotAttempted)
	require.ErrorContains(t, err, "too-large")
	require.ErrorContains(t, err, messages[2].UUID)
	require.NotContains(t, err.Error(), messages[0].UUID)

	require.NoError(t, p.Publish(topic, keyed("k", 3, 2)...))
	require.NoError(t, produce(t, p, topic, 0, keyed("k", 5, 1)...)[0].err, "nor do they hold up Produce")
	require.Equal(t, []string{"0", "3", "4", "5"}, payloads(t, shared, topic))
	require.NoError(t, p.Publish(topic))
}

func TestDoneContextSendsNothing(t *testing.T) {
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared}, nil)
	closed(t, p, err)
	topic := newTopic(t, shared, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, r := range produceContext(ctx, t, p, topic, 1, keyed("k", 0, 3)...) {
		require.ErrorIs(t, r.err, event.ErrNotAttempted)
		require.ErrorIs(t, r.err, context.Canceled)
	}
	msg := event.New("test", nil)
	msg.SetContext(ctx)
	require.ErrorIs(t, p.Publish(topic, msg), context.Canceled)
	require.Empty(t, readTopic(t, shared, topic))
}

func TestUnknownTopicIsHeldUntilItExists(t *testing.T) {
	cluster, connection := faulty(t)
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection}, nil)
	closed(t, p, err)
	results := produce(t, p, "missing", 1, keyed("k", 0, 2)...)
	require.ErrorIs(t, results[0].err, kafka.ErrUnknownTopic)
	require.False(t, event.IsPermanent(results[0].err))
	require.ErrorIs(t, results[1].err, event.ErrNotAttempted)
	_, err = p.Partitions(t.Context(), "missing")
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)

	require.NoError(t, cluster.CreateTopic("missing", 3, nil))
	require.ErrorIs(t, produce(t, p, "missing", 1, keyed("k", 2, 1)...)[0].err, event.ErrNotAttempted, "would pass the first two")
	require.NoError(t, produce(t, p, "missing", 2, keyed("k", 0, 1)...)[0].err)
	n, err := p.Partitions(t.Context(), "missing")
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
}

func TestMissingTopicIsCreatedWhenAllowed(t *testing.T) {
	_, connection := faulty(t)
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection, AllowAutoTopicCreation: true}, nil)
	closed(t, p, err)
	require.NoError(t, p.Publish("new", event.New("test", nil)))
}

func TestInvalidTopicIsPermanent(t *testing.T) {
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared}, nil)
	closed(t, p, err)
	for _, topic := range []string{"a b", "", ".."} {
		r := produce(t, p, topic, 1, event.New("test", nil))[0]
		require.True(t, event.IsPermanent(r.err))
		require.ErrorIs(t, p.Publish(topic, event.New("test", nil)), event.ErrInvalid)
	}
}

func TestChangedPartitionCountHoldsTheTopic(t *testing.T) {
	cluster, connection := faulty(t)
	require.NoError(t, cluster.CreateTopic("grows", 2, nil))
	confirmed := make(chan int32, 1)
	confirmed <- 2
	unconfirmed := errors.New("not confirmed by anybody")
	p, err := kafka.NewPublisher(kafka.PublisherConfig{
		Connection:     connection,
		MetadataMaxAge: time.Nanosecond,
		CheckPartitions: func(_ string, n int32) error {
			expected := <-confirmed
			confirmed <- expected
			if n != expected {
				return unconfirmed
			}
			return nil
		},
	}, nil)
	closed(t, p, err)
	require.NoError(t, p.Publish("grows", keyed("k", 0, 1)...))
	_, err = admin(t, connection).CreatePartitions(t.Context(), 3, "grows")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return errors.Is(p.Publish("grows", keyed("k", 1, 1)...), unconfirmed)
	}, 10*time.Second, time.Millisecond)
	<-confirmed
	confirmed <- 5
	require.NoError(t, p.Publish("grows", keyed("k", 2, 1)...))
	n, err := p.Partitions(t.Context(), "grows")
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
}

func TestClosedPublisherSendsNothing(t *testing.T) {
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared}, nil)
	require.NoError(t, err)
	topic := newTopic(t, shared, 1, nil)
	accepted := start(t.Context(), t, p, topic, 1, keyed("k", 0, 5000)...)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	for _, r := range accepted() {
		require.NoError(t, r.err, "accepted before Close")
	}
	r := produce(t, p, topic, 1, keyed("k", 5000, 1)...)[0]
	require.ErrorIs(t, r.err, kafka.ErrClosed)
	require.ErrorIs(t, r.err, event.ErrNotAttempted)
	require.ErrorIs(t, p.Publish(topic, event.New("test", nil)), kafka.ErrClosed)
	_, err = p.Partitions(t.Context(), topic)
	require.ErrorIs(t, err, kafka.ErrClosed)
	require.Equal(t, numbers(0, 5000), payloads(t, shared, topic))
}
