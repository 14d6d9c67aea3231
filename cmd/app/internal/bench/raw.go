package bench

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/kafka"
)

const (
	// rawWindow bounds what the plain producer has in memory.
	rawWindow = 50_000
	// rawWarmUp is how many records at most go ahead, to the topic for that, so that connections and the broker are warm.
	rawWarmUp = 20_000
	// rawSamples is how many records are made beforehand, so that making them is not measured; they are sent in turn.
	rawSamples = 10_000
	// rawPlenty is how many records it takes for the rate to be no matter of milliseconds: where there are few events, more
	// are sent.
	rawPlenty = 100_000
)

// rawLimit is how many records of the same kind the broker takes a second from a plain producer.
func (b *stage) rawLimit(ctx context.Context) (perSecond float64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("plain producer: %w", err)
		}
	}()
	samples := make([]kgo.Record, min(rawSamples, b.Events))
	for n := range samples {
		if samples[n], err = b.load.record(n); err != nil {
			return 0, err
		}
	}
	// What the relay's publisher has too: all replicas, idempotent, no compression, the same partitioner and batch size.
	client, err := broker.NewClient(b.Brokers,
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.MaxBufferedRecords(rawWindow))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if err := produce(ctx, client, b.topic("warm"), samples, min(rawWarmUp, b.Events)); err != nil {
		return 0, err
	}
	count := min(10*b.Events, max(b.Events, rawPlenty))
	if err := produce(ctx, client, b.topic("raw"), samples, count); err != nil {
		return 0, err
	}
	var m meter
	err = broker.Scan(ctx, b.Brokers, b.topic("raw"), func(r *kgo.Record) { m.add(r.Timestamp) })
	if err == nil && m.total != count {
		err = fmt.Errorf("%d records of %d are on the topic", m.total, count)
	}
	_, perSecond = m.rate()
	return perSecond, err
}

// produce sends records as fast as the client takes them, and waits for all acknowledgements.
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

// record is what the relay sends for an event.
func (l load) record(n int) (kgo.Record, error) {
	marshaled, err := kafka.Marshaler{}.Marshal("", l.event(n))
	if err != nil {
		return kgo.Record{}, err
	}
	key, err := marshaled.Key.Encode()
	if err != nil {
		return kgo.Record{}, err
	}
	r := kgo.Record{Key: key, Value: l.payload(n)}
	for _, h := range marshaled.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: string(h.Key), Value: h.Value})
	}
	return r, nil
}
