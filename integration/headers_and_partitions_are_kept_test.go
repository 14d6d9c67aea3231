package integration_test

import (
	"maps"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/pipeline"
)

func TestEveryHeaderArrives(t *testing.T) {
	s := newSystem(t, 1)
	consumer := s.name("projection")
	msg := event.New("order.paid", []byte("{}"), event.Aggregate("order", "7", 3), event.WithID("E"), event.SchemaVersion(2),
		event.Tenant("acme"), event.CausedBy("command-1"), event.Meta(event.CorrelationIDKey, "correlation-1"),
		event.Meta(event.TraceparentKey, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
		event.Meta(event.TracestateKey, "vendor=1"), event.Meta("Own-Header", "größe: \"1\"\n"), event.Meta("empty", ""))
	sent := maps.Clone(msg.Metadata)
	arrived := make(chan message.Metadata, 1)
	p := s.pipeline(pipeline.Config{})
	require.NoError(t, p.Handle(consumer, s.topic, func(msg *message.Message) error {
		arrived <- maps.Clone(msg.Metadata)
		return effect(msg.Context(), consumer, msg)
	}))
	s.start(p)
	s.publish(s.topic, msg)
	s.awaitEffects(consumer, "E")
	require.Equal(t, sent, <-arrived)
	record := testkit.ReadTopic(t, s.topic)[0]
	for key, value := range sent {
		require.Equal(t, value, header(record, key), key)
	}
}

// What murmur2 of Kafka's Java client makes of keys, of six partitions.
func TestKeysLandWhereOtherClientsLookForThem(t *testing.T) {
	s := newSystem(t, 6)
	partitions := map[string]int32{
		"": 3, "a": 4, "abc": 3, "order-1": 4, "order-2": 3, "customer-42": 3, "日本語": 4, "foobar": 0,
		"a-little-bit-long-string": 2, "a-little-bit-longer-string": 5, "abcde": 1,
	}
	for key := range partitions {
		s.publish(s.topic, event.New("e", nil, event.PartitionKey(key)))
	}
	require.Equal(t, len(partitions), s.relayOnce())
	placed := map[string]int32{}
	for _, record := range testkit.ReadTopic(t, s.topic) {
		placed[string(record.Key)] = record.Partition
	}
	require.Equal(t, partitions, placed)
}
