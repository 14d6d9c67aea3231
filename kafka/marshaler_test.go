package kafka_test

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
)

func TestNullAndEmptySurviveTheRoundTrip(t *testing.T) {
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared}, nil)
	closed(t, publisher, err)
	topic := newTopic(t, shared, 1, nil)
	sent := map[string]*message.Message{}
	for _, payload := range []message.Payload{nil, {}, []byte("\x00\xff")} {
		for _, attributes := range [][]event.Attribute{nil, {event.PartitionKey("")}, {event.PartitionKey("k")}, {event.Aggregate("a", "7", 1)}} {
			msg := event.New("test", payload, attributes...)
			sent[msg.UUID] = msg
			require.NoError(t, publisher.Publish(topic, msg))
		}
	}
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{Connection: shared}, nil)
	messages, err := closed(t, subscriber, err).Subscribe(t.Context(), topic)
	require.NoError(t, err)
	for range len(sent) {
		msg := receive(t, messages)
		original := sent[msg.UUID]
		require.Equal(t, original.Payload, msg.Payload)
		require.Equal(t, original.Payload == nil, msg.Payload == nil)
		require.Equal(t, original.Metadata, msg.Metadata)
		d, ok := event.DeliveryFromContext(msg.Context())
		require.True(t, ok)
		require.Equal(t, topic, d.Topic)
		require.NoError(t, d.Undecodable)
		key, has := event.Key(original)
		require.Equal(t, has, d.Key != nil)
		require.Equal(t, key, string(d.Key))
		msg.Ack()
	}
}

func TestReservedMetadataIsPermanent(t *testing.T) {
	for _, value := range []string{"", "x"} {
		_, err := kafka.Marshaler{}.Marshal("topic", event.New("test", nil, event.Meta(wkafka.UUIDHeaderKey, value)))
		require.True(t, event.IsPermanent(err))
	}
}

func TestRecordWithoutEventIDGetsAStableOne(t *testing.T) {
	record := &sarama.ConsumerMessage{Topic: "t", Partition: 2, Offset: 7, Value: []byte("v"), Timestamp: time.UnixMilli(5)}
	msg, err := kafka.Marshaler{}.Unmarshal(record)
	require.NoError(t, err)
	expected := event.DeriveID(event.Delivery{Topic: "t", Partition: 2, Offset: 7, Timestamp: time.UnixMilli(5)}, []byte("v"))
	require.Equal(t, expected, msg.Metadata[event.IDKey])
	require.Equal(t, expected, msg.UUID)

	header := func(key, value string) *sarama.RecordHeader {
		return &sarama.RecordHeader{Key: []byte(key), Value: []byte(value)}
	}
	record.Headers = []*sarama.RecordHeader{header(event.IDKey, ""), header(wkafka.UUIDHeaderKey, "uuid"), header("twice", "1"), header("twice", "2")}
	msg, err = kafka.Marshaler{}.Unmarshal(record)
	require.NoError(t, err)
	require.Equal(t, message.Metadata{event.IDKey: expected, "twice": "2"}, msg.Metadata)
	require.Equal(t, "uuid", msg.UUID)

	record.Headers = []*sarama.RecordHeader{header(event.IDKey, "a\x00b")}
	_, err = kafka.Marshaler{}.Unmarshal(record)
	require.ErrorIs(t, err, event.ErrInvalid)
	require.True(t, event.IsPermanent(err))
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), event.IDKey, []byte("id"))
	f.Add([]byte(nil), []byte(nil), "", []byte(nil))
	f.Add([]byte{}, []byte("\xff"), wkafka.UUIDHeaderKey, []byte("\x00"))
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte) {
		msg, err := kafka.Marshaler{}.Unmarshal(&sarama.ConsumerMessage{
			Topic: "t", Key: key, Value: value,
			Headers: []*sarama.RecordHeader{{Key: []byte(name), Value: header}},
		})
		if err != nil {
			require.True(t, event.IsPermanent(err))
			return
		}
		require.NoError(t, event.ValidateID(msg.Metadata[event.IDKey]))
		require.Equal(t, value, []byte(msg.Payload))
		require.NotEmpty(t, msg.UUID)
	})
}
