package kafka_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/kafka"
)

// shared is the broker of every test that injects no fault: the embedded one or Apache Kafka, as testkit is told.
var shared kafka.Connection

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if shared.Brokers, err = testkit.Brokers(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	fuzzing := flag.Lookup("test.fuzz").Value.String() != "" // has goroutines of its own
	if code == 0 && !fuzzing {
		// Watermill's suite leaves the goroutines of its own multiplying subscriber behind.
		const suite = "github.com/ThreeDotsLabs/watermill/internal/subscriber.(*multiplier).Subscribe.func"
		if err := goleak.Find(goleak.IgnoreAnyFunction(suite+"2"), goleak.IgnoreAnyFunction(suite+"3")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

func clusterOptions() []kfake.Opt {
	return []kfake.Opt{kfake.NumBrokers(1), kfake.DefaultNumPartitions(6), kfake.AllowAutoTopicCreation()}
}

// faulty is an embedded broker of the test's own, to inject faults into.
func faulty(t *testing.T) (*kfake.Cluster, kafka.Connection) {
	t.Helper()
	cluster, err := kfake.NewCluster(clusterOptions()...)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return cluster, kafka.Connection{Brokers: cluster.ListenAddrs()}
}

func admin(t *testing.T, connection kafka.Connection) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(connection.Brokers...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

func newTopic(t *testing.T, connection kafka.Connection, partitions int32, settings map[string]*string) string {
	t.Helper()
	topic := "test-" + uuid.NewString()
	client := admin(t, connection)
	_, err := client.CreateTopic(t.Context(), partitions, 1, settings, topic)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		topics, err := client.ListTopics(t.Context(), topic)
		return err == nil && topics[topic].Err == nil && len(topics[topic].Partitions) == int(partitions)
	}, 10*time.Second, 10*time.Millisecond)
	return topic
}

// readTopic returns every record of the topic up to its present end, by partition in offset order.
func readTopic(t *testing.T, connection kafka.Connection, topic string) []*kgo.Record {
	t.Helper()
	ends, err := admin(t, connection).ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	require.NoError(t, ends.Error())
	missing := int64(0)
	ends.Each(func(end kadm.ListedOffset) { missing += end.Offset })
	client, err := kgo.NewClient(kgo.SeedBrokers(connection.Brokers...), kgo.ConsumeTopics(topic))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var records []*kgo.Record
	for int64(len(records)) < missing {
		fetches := client.PollFetches(ctx)
		require.NoError(t, ctx.Err(), "%d of %d records", len(records), missing)
		records = append(records, fetches.Records()...)
	}
	return records
}

func produceRaw(t *testing.T, connection kafka.Connection, records ...*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(connection.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(), records...).FirstErr())
}

// closed closes c at the end of the test.
func closed[C interface{ Close() error }](t *testing.T, c C, err error) C {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
