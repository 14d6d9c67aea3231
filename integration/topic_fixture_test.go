package integration_test

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
)

// produce writes records as a program without this project would, to the partitions they name.
func (s *system) produce(records ...*kgo.Record) {
	s.t.Helper()
	require.NoError(s.t, s.tryProduce(records...))
}

func (s *system) tryProduce(records ...*kgo.Record) error {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(s.t, err)
	defer client.Close()
	return client.ProduceSync(context.Background(), records...).FirstErr()
}

// copyOf is an event as a record.
func copyOf(msg *message.Message, topic string, partition int32) *kgo.Record {
	record := &kgo.Record{Topic: topic, Partition: partition, Value: msg.Payload}
	if key, ok := event.Key(msg); ok {
		record.Key = []byte(key)
	}
	for key, value := range msg.Metadata {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	return record
}

func header(record *kgo.Record, key string) string {
	for _, h := range record.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// wire returns the event_ids on the topic by partition and offset.
func (s *system) wire() []string {
	s.t.Helper()
	ids := []string{}
	for _, record := range testkit.ReadTopic(s.t, s.topic) {
		ids = append(ids, header(record, event.IDKey))
	}
	return ids
}

// createTopic makes a topic with exactly this name.
func (s *system) createTopic(topic string, partitions int32) {
	s.t.Helper()
	s.administer(func(ctx context.Context, admin *kadm.Client) error {
		if _, err := admin.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
			return err
		}
		for {
			topics, err := admin.ListTopics(ctx, topic)
			if err != nil || topics[topic].Err == nil {
				return err
			}
		}
	})
}

// awaitCommitted waits until the group has committed everything on the topic.
func (s *system) awaitCommitted(group, topic string) {
	s.t.Helper()
	s.await(func() bool { return s.lag(group, topic) == 0 })
}

func (s *system) lag(group, topic string) (lag int64) {
	s.t.Helper()
	s.administer(func(ctx context.Context, admin *kadm.Client) error {
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		committed, err := admin.FetchOffsets(ctx, group)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return err
		}
		ends.Each(func(end kadm.ListedOffset) {
			at, _ := committed.Lookup(topic, end.Partition)
			lag += end.Offset - at.At
		})
		return nil
	})
	return lag
}

func (s *system) administer(f func(context.Context, *kadm.Client) error) {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	require.NoError(s.t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(s.t, f(ctx, kadm.NewClient(client)))
}

// awaitMembers waits until so many members of the group have partitions.
func (s *system) awaitMembers(group string, members int) {
	s.t.Helper()
	s.await(func() bool {
		working := 0
		s.administer(func(ctx context.Context, admin *kadm.Client) error {
			groups, err := admin.DescribeGroups(ctx, group)
			if err != nil {
				return err
			}
			for _, member := range groups[group].Members {
				if assigned, ok := member.Assigned.AsConsumer(); ok && len(assigned.Topics) > 0 && len(assigned.Topics[0].Partitions) > 0 {
					working++
				}
			}
			return nil
		})
		return working == members
	})
}
