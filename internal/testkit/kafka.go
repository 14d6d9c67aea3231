package testkit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaTimeout bounds one call to the broker, however many records it reads.
const kafkaTimeout = time.Minute

// Brokers is Kafka for a TestMain, which has no test to fail.
func Brokers() ([]string, error) { return brokers() }

// Kafka returns the addresses of the test process's broker.
func Kafka(t testing.TB) []string {
	t.Helper()
	addresses, err := brokers()
	require.NoError(t, err, "Kafka for tests")
	return slices.Clone(addresses)
}

// Topic creates a fresh topic and returns once every partition has a leader.
func Topic(t testing.TB, partitions int) string {
	t.Helper()
	return TopicOn(t, Kafka(t), partitions)
}

// TopicOn is Topic on other brokers than those of the test process.
func TopicOn(t testing.TB, addresses []string, partitions int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), kafkaTimeout)
	defer cancel()
	admin := kadm.NewClient(client(t, addresses))
	defer admin.Close()
	topic := uniqueName(t, "test", 200)
	created, err := admin.CreateTopic(ctx, int32(partitions), -1, nil, topic)
	require.NoError(t, err)
	require.NoError(t, created.Err)
	require.Eventually(t, func() bool {
		listed, err := admin.ListTopics(ctx, topic)
		return err == nil && listed[topic].Err == nil && ledPartitions(listed[topic]) == partitions
	}, kafkaTimeout, 10*time.Millisecond, "no leader for %s", topic)
	return topic
}

func ledPartitions(topic kadm.TopicDetail) int {
	led := 0
	for _, partition := range topic.Partitions {
		if partition.Err == nil && partition.Leader >= 0 {
			led++
		}
	}
	return led
}

// Group returns the name of a consumer group nobody used before, so that no member of an earlier test delays it.
func Group(t testing.TB) string {
	t.Helper()
	return uniqueName(t, "group", 200)
}

// ReadTopic reads a topic from offset 0 to the high watermarks found at the start of the call, without a group, and
// returns the records by partition and offset. Records of unfinished and aborted transactions are included.
func ReadTopic(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	return ReadTopicOn(t, Kafka(t), topic)
}

// ReadTopicOn is ReadTopic on other brokers than those of the test process.
func ReadTopicOn(t testing.TB, addresses []string, topic string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), kafkaTimeout)
	defer cancel()
	records, err := readTopic(ctx, client(t, addresses), topic)
	require.NoError(t, err)
	return records
}

func readTopic(ctx context.Context, client *kgo.Client, topic string) ([]*kgo.Record, error) {
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("end offsets of %s: %w", topic, err)
	}
	open := map[int32]int64{} // partition -> high watermark not yet reached
	from := map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			open[end.Partition] = end.Offset
			from[end.Partition] = kgo.NewOffset().At(0)
		}
	})
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})

	var records []*kgo.Record
	for len(open) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			end, wanted := open[record.Partition]
			if !wanted {
				return // written after the call began
			}
			if !record.Attrs.IsControl() {
				records = append(records, record)
			}
			if record.Offset+1 >= end {
				delete(open, record.Partition)
			}
		})
	}
	slices.SortFunc(records, func(a, b *kgo.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return records, nil
}

// client returns a client that sees transaction markers, because the last record of a partition may be one.
func client(t testing.TB, addresses []string) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.KeepControlRecords())
	require.NoError(t, err)
	return client
}
