package demo

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
)

// copies is how many records of a topic are put on it a second time.
const copies = 25

// killRelay kills a relay once events have come through, so that others are on their way.
func (d *run) killRelay(ctx context.Context) error {
	err := d.await(ctx, "first events", func(ctx context.Context) (int, int, error) {
		n, err := d.onTopic(ctx, d.config.Topics.Orders)
		return min(n, 1), 1, err
	})
	if err != nil {
		return err
	}
	pid, err := d.relays.kill()
	if err != nil {
		return err
	}
	d.killed++
	d.config.Say("relay %d was killed in the middle of its work; another one starts", pid)
	return nil
}

// duplicate writes records of the topic to it again, as a producer does that never heard of its success.
func (d *run) duplicate(ctx context.Context, topic string) error {
	records, err := broker.ReadTopic(ctx, d.config.Brokers, topic)
	if err != nil {
		return err
	}
	client, err := broker.NewClient(d.config.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	var again []*kgo.Record
	for n := range min(copies, len(records)) {
		r := records[n*len(records)/min(copies, len(records))]
		again = append(again, &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers})
	}
	if err := client.ProduceSync(ctx, again...).FirstErr(); err != nil {
		return fmt.Errorf("write duplicates: %w", err)
	}
	d.config.Say("%d records of topic %s were written a second time", len(again), topic)
	return nil
}

// onTopic is how many records a topic has.
func (d *run) onTopic(ctx context.Context, topic string) (int, error) {
	client, err := broker.NewClient(d.config.Brokers)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ends, err := broker.HighWatermarks(ctx, client, topic)
	if err != nil {
		return 0, err
	}
	var n int64
	for _, end := range ends {
		n += end
	}
	return int(n), nil
}
