package bench

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
)

// batch is how many events one transaction writes.
const batch = 1000

// newEvent is the n-th event.
func newEvent(n int) (*message.Message, error) {
	id, version := fmt.Sprintf("order-%04d", n%aggregates), int64(n/aggregates+1)
	body := map[string]any{"order_id": id, "version": version, "note": ""}
	bare, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	body["note"] = strings.Repeat("x", max(0, payloadBytes-len(bare)))
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return event.New("order.changed", payload, event.Aggregate("order", id, version)), nil
}

// preload writes the events.
func (b *bench) preload(ctx context.Context) ([]*message.Message, error) {
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{MaxRows: batch}, nil)
	if err != nil {
		return nil, err
	}
	events := make([]*message.Message, 0, b.Events)
	for len(events) < b.Events {
		messages := make([]*message.Message, 0, batch)
		for n := len(events); n < min(len(events)+batch, b.Events); n++ {
			msg, err := newEvent(n)
			if err != nil {
				return nil, err
			}
			messages = append(messages, msg)
		}
		err := outbox.InTx(ctx, b.db, func(ctx context.Context, tx *sql.Tx) error {
			for _, msg := range messages {
				msg.SetContext(ctx)
			}
			return publisher.Publish(b.relayTopic(), messages...)
		})
		if err != nil {
			return nil, err
		}
		events = append(events, messages...)
		b.Progress("written", len(events), b.Events)
	}
	// Fresh statistics, as autovacuum keeps them in a database that has been at work for a while.
	_, err = b.db.ExecContext(ctx, "analyze millrace.outbox, millrace.outbox_receipt")
	return events, err
}

// produceRaw writes the same records with a plain producer, as fast as it can, and reads them back.
func (b *bench) produceRaw(ctx context.Context, events []*message.Message) ([]*kgo.Record, error) {
	records := make([]*kgo.Record, len(events))
	for i, msg := range events {
		marshaled, err := kafka.Marshaler{}.Marshal(b.rawTopic(), msg)
		if err != nil {
			return nil, err
		}
		key, err := marshaled.Key.Encode()
		if err != nil {
			return nil, err
		}
		records[i] = &kgo.Record{Topic: b.rawTopic(), Key: key, Value: msg.Payload}
		for _, h := range marshaled.Headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: string(h.Key), Value: h.Value})
		}
	}
	// What the relay's publisher has too: all replicas, idempotent, no compression, the same partitioner and batch size.
	client, err := broker.NewClient(b.Brokers,
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.MaxBufferedRecords(len(records)+1))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	return broker.ReadTopic(ctx, b.Brokers, b.rawTopic())
}
