package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// createTopics makes topics whose records carry the broker's time.
func createTopics(ctx context.Context, client *kgo.Client, topics ...string) error {
	byBroker := "LogAppendTime"
	made, err := kadm.NewClient(client).CreateTopics(ctx, partitions, -1, map[string]*string{"message.timestamp.type": &byBroker}, topics...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	return nil
}

func deleteTopics(ctx context.Context, client *kgo.Client, topics ...string) error {
	deleted, err := kadm.NewClient(client).DeleteTopics(ctx, topics...)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return fmt.Errorf("delete topics: %w", err)
	}
	return nil
}

// ends are the offsets behind the last records of a topic's partitions, and their sum.
func ends(ctx context.Context, client *kgo.Client, topic string) (by map[int32]int64, sum int64, err error) {
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("ends of %s: %w", topic, err)
	}
	by = map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) {
		by[o.Partition] = o.Offset
		sum += o.Offset
	})
	return by, sum, nil
}

// scan calls f for the records that are on a topic now, those of a partition in their order.
func scan(ctx context.Context, brokers []string, topic string, f func(*kgo.Record)) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	behind, left, err := ends(ctx, client, topic)
	if err != nil || left == 0 {
		return err
	}
	from := map[int32]kgo.Offset{}
	for partition, end := range behind {
		if end > 0 {
			from[partition] = kgo.NewOffset().At(0)
		}
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return err
	}
	defer reader.Close()
	for left > 0 {
		poll, cancel := context.WithTimeout(ctx, patience)
		fetches := reader.PollFetches(poll)
		cancel()
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("read %s: %w", topic, failed.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < behind[r.Partition] {
				left--
				f(r)
			}
		})
	}
	return nil
}

const (
	// window bounds what the plain producer has in memory, and warmUp is what it sends before it is measured.
	window = 50_000
	warmUp = 20_000
	// plenty is how many records it takes for its rate to be no matter of milliseconds.
	plenty = 100_000
)

// producer is the client of the plain producer: all replicas acknowledge, idempotent, no compression.
func producer(brokers []string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.MaxBufferedRecords(window))
}

// plainLimit is how many records a second a plain producer gets onto the broker, asynchronously. Where there are few events,
// it sends more.
func plainLimit(ctx context.Context, brokers []string, warm, topic string, events int) (float64, error) {
	client, err := producer(brokers)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	// Made beforehand and sent in turn, so that making them is not measured.
	samples := make([]kgo.Record, min(10_000, events))
	for n := range samples {
		samples[n] = kgo.Record{Key: []byte(aggregate(n)), Value: payload(n), Headers: []kgo.RecordHeader{
			{Key: "event_id", Value: []byte(eventID(n))}, {Key: "event_type", Value: []byte(eventType)},
		}}
	}
	if err := produce(ctx, client, warm, samples, min(warmUp, events)); err != nil {
		return 0, err
	}
	if err := produce(ctx, client, topic, samples, min(10*events, max(events, plenty))); err != nil {
		return 0, err
	}
	t := newTally(0)
	if err := scan(ctx, brokers, topic, func(r *kgo.Record) { t.time(r.Timestamp) }); err != nil {
		return 0, err
	}
	return ratio(float64(t.total-t.atFirst), t.end.Sub(t.first).Seconds()), nil
}

func produce(ctx context.Context, client *kgo.Client, topic string, samples []kgo.Record, count int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var pending sync.WaitGroup
	for n := 0; n < count && ctx.Err() == nil; n++ {
		r := samples[n%len(samples)]
		r.Topic = topic
		pending.Add(1)
		client.Produce(ctx, &r, func(_ *kgo.Record, err error) {
			if err != nil {
				cancel(err)
			}
			pending.Done()
		})
	}
	pending.Wait()
	return context.Cause(ctx)
}

// patience is how long nothing may move.
const patience = time.Minute
