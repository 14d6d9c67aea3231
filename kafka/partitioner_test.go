package kafka_test

import (
	"fmt"
	"testing"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
)

// javaPartitions is what the Java client's Utils.toPositive(Utils.murmur2(key)) % 6 says.
var javaPartitions = map[string]int32{
	"": 3, "a": 4, "ab": 2, "abc": 3, "abcd": 2, "abcde": 1, "4711": 4, "order-1": 4, "order-2": 3, "customer-42": 3,
	"ünïcödé": 1, "日本語": 4, "0": 2, "00000000-0000-0000-0000-000000000000": 3, "foobar": 0, "a-little-bit-long-string": 2,
	"a-little-bit-longer-string": 5, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": 5, "z": 2, "\x00": 2,
}

// placed returns the partition each key lands on, of six.
func placed(t *testing.T, partitioner kafka.Partitioner, keys []string) map[string]int32 {
	t.Helper()
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared, Partitioner: partitioner}, nil)
	closed(t, p, err)
	var messages []*message.Message
	for _, key := range keys {
		messages = append(messages, event.New("test", nil, event.PartitionKey(key)))
	}
	partitions := map[string]int32{}
	for i, r := range produce(t, p, newTopic(t, shared, 6, nil), 1, messages...) {
		require.NoError(t, r.err)
		partitions[keys[i]] = r.receipt.Partition
	}
	return partitions
}

func thousandKeys() []string {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("aggregate-%d", i*7919)
	}
	return keys
}

func TestKeysLandWhereTheJavaClientPutsThem(t *testing.T) {
	var keys []string
	for key := range javaPartitions {
		keys = append(keys, key)
	}
	require.Equal(t, javaPartitions, placed(t, kafka.PartitionerJava, keys))

	java := kgo.StickyKeyPartitioner(nil).ForTopic("")
	for key, partition := range placed(t, "", thousandKeys()) {
		require.EqualValues(t, java.Partition(&kgo.Record{Key: []byte(key)}, 6), partition, key)
	}
}

func TestKeysLandWhereSaramaPutsThem(t *testing.T) {
	stock := sarama.NewHashPartitioner("")
	for key, partition := range placed(t, kafka.PartitionerSarama, append(thousandKeys(), "")) {
		expected, err := stock.Partition(&sarama.ProducerMessage{Key: sarama.StringEncoder(key)}, 6)
		require.NoError(t, err)
		require.Equal(t, expected, partition, key)
	}
}

func TestMessagesWithoutKeyAreSpread(t *testing.T) {
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: shared}, nil)
	closed(t, p, err)
	topic := newTopic(t, shared, 6, nil)
	var messages []*message.Message
	for range 600 {
		messages = append(messages, event.New("test", []byte("x")))
	}
	counts := map[int32]int{}
	first := produce(t, p, topic, 1, messages...)
	for _, r := range first {
		require.NoError(t, r.err)
		counts[r.receipt.Partition]++
	}
	require.Len(t, counts, 6)
	for _, n := range counts {
		require.Greater(t, n, 50)
	}
	for i, r := range produce(t, p, topic, 2, messages...) {
		require.Equal(t, first[i].receipt.Partition, r.receipt.Partition, "sent again")
	}
}
