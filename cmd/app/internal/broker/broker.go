// Package broker opens plain Kafka clients: for reading topics as they are, for administration, and for the raw limit that
// measurements are compared with. Nothing in it goes through package kafka's publisher or subscriber.
package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/millrace-go/millrace/kafka"
)

// coordinatorTimeout is how long to wait for a coordinator of groups.
const coordinatorTimeout = 20 * time.Second

var coordinatorAway = []error{kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator}

// NewClient makes a client with further options. It does not connect; Close it.
func NewClient(connection kafka.Connection, options ...kgo.Opt) (*kgo.Client, error) {
	all := []kgo.Opt{
		kgo.SeedBrokers(connection.Brokers...),
		kgo.DisableClientMetrics(),
		kgo.RetryTimeout(10 * time.Second),
	}
	if connection.ClientID != "" {
		all = append(all, kgo.ClientID(connection.ClientID))
	}
	if connection.TLS != nil {
		all = append(all, kgo.DialTLSConfig(connection.TLS))
	}
	user, password := connection.SASL.Username, connection.SASL.Password
	switch connection.SASL.Mechanism {
	case kafka.SASLPlain:
		all = append(all, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case kafka.SASLScramSHA256:
		all = append(all, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case kafka.SASLScramSHA512:
		all = append(all, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	}
	return kgo.NewClient(append(all, options...)...)
}

// HighWatermarks returns the offsets behind the last records of a topic's partitions.
func HighWatermarks(ctx context.Context, client *kgo.Client, topic string) (map[int32]int64, error) {
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("high watermarks of %s: %w", topic, err)
	}
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends, nil
}

// ReadTopic reads the topic from offset 0 to the high watermarks found now, ordered by partition and offset.
func ReadTopic(ctx context.Context, connection kafka.Connection, topic string) ([]*kgo.Record, error) {
	var records []*kgo.Record
	err := Scan(ctx, connection, topic, func(r *kgo.Record) { records = append(records, r) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(records, func(a, b *kgo.Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return records, nil
}

// Scan calls each for the records of the topic from offset 0 to the high watermarks found now, those of a partition in the
// order of their offsets. It keeps none of them.
func Scan(ctx context.Context, connection kafka.Connection, topic string, each func(*kgo.Record)) error {
	client, err := NewClient(connection)
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := HighWatermarks(ctx, client, topic)
	if err != nil {
		return err
	}
	starts := map[int32]kgo.Offset{}
	missing := 0
	for partition, end := range ends {
		if end > 0 {
			starts[partition] = kgo.NewOffset().At(0)
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	reader, err := NewClient(connection, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}))
	if err != nil {
		return err
	}
	defer reader.Close()
	done := map[int32]bool{}
	for len(done) < missing {
		fetches := reader.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("read %s: %w", topic, failed.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < ends[r.Partition] {
				each(r)
			}
			if r.Offset >= ends[r.Partition]-1 {
				done[r.Partition] = true
			}
		})
	}
	return nil
}

// CreateTopics makes topics. One that is being deleted is waited for.
func CreateTopics(ctx context.Context, connection kafka.Connection, partitions int32, config map[string]*string, topics ...string) error {
	client, err := NewClient(connection)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for _, topic := range topics {
		for {
			_, err := admin.CreateTopic(ctx, partitions, -1, config, topic)
			if err == nil {
				break
			}
			if !errors.Is(err, kerr.TopicAlreadyExists) {
				return fmt.Errorf("create topic %s: %w", topic, err)
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return fmt.Errorf("create topic %s: it exists: %w", topic, err)
			}
		}
	}
	return nil
}

// DeleteTopics removes topics and consumer groups. What is not there is no error.
func DeleteTopics(ctx context.Context, connection kafka.Connection, groups, topics []string) error {
	client, err := NewClient(connection)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	// Offsets of a group without its topic harm nobody, but they would have a new topic of that name start behind its end.
	// A broker that never had a group has no coordinator to ask, so only what is there is asked for.
	if len(groups) > 0 {
		err := coordinated(ctx, func() error { return deleteGroups(ctx, admin, groups) })
		if err != nil {
			return err
		}
	}
	deleted, err := admin.DeleteTopics(ctx, topics...)
	if err != nil {
		return fmt.Errorf("delete topics: %w", err)
	}
	for _, d := range deleted {
		if d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("delete topic %s: %w", d.Topic, d.Err)
		}
	}
	return nil
}

func deleteGroups(ctx context.Context, admin *kadm.Client, groups []string) error {
	there, err := admin.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	groups = slices.DeleteFunc(slices.Clone(groups), func(group string) bool { _, is := there[group]; return !is })
	if len(groups) == 0 {
		return nil
	}
	deleted, err := admin.DeleteGroups(ctx, groups...)
	if err != nil {
		return fmt.Errorf("delete groups: %w", err)
	}
	for _, d := range deleted {
		if d.Err != nil && !errors.Is(d.Err, kerr.GroupIDNotFound) {
			return fmt.Errorf("delete group %s: %w", d.Group, d.Err)
		}
	}
	return nil
}

// coordinated tries again while a broker that has just started, or made its topic of groups, has no coordinator yet.
func coordinated(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, coordinatorTimeout)
	defer cancel()
	for {
		err := try()
		if !slices.ContainsFunc(coordinatorAway, func(away error) bool { return errors.Is(err, away) }) {
			return err
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// Header returns the last header of that name, "" if there is none.
func Header(r *kgo.Record, name string) string {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
