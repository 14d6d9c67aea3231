package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/cmd/app/internal/relayprocess"
)

// patience is how long nothing may move.
const patience = 30 * time.Second

// Relay measures a relay that finds a full outbox, next to a plain producer, then one with little and with nothing to do.
func Relay(ctx context.Context, config Config) (f Figures, err error) {
	err = on(ctx, config, load{manyAggregates}, []string{"warm", "raw", "relay", "latency"}, func(b *stage) error {
		if err := b.preload(ctx, b.topic("relay")); err != nil {
			return err
		}
		limit, err := b.rawLimit(ctx)
		if err != nil {
			return err
		}
		if f, err = b.drain(ctx); err != nil {
			return err
		}
		f.LimitPerSecond = some(limit)
		return b.rest(ctx, b.Events, &f)
	})
	return f, err
}

// drain runs a relay until all events are on their topic and receipted, and reads them back.
func (b *stage) drain(ctx context.Context) (Figures, error) {
	used, err := b.withRelay(func(relay *relayprocess.Process) error {
		return b.awaitRelayed(ctx, relay, b.topic("relay"), b.Events)
	})
	if err != nil {
		return Figures{}, err
	}
	f := Figures{Events: b.Events}
	f.used(used)
	var m meter
	t := newTally(b.load, b.Events)
	err = broker.Scan(ctx, b.Brokers, b.topic("relay"), func(r *kgo.Record) {
		m.add(r.Timestamp)
		t.add(r)
	})
	f.Seconds, f.EventsPerSecond = m.rate()
	f.counted(t)
	return f, err
}

// awaitRelayed waits until there is a record and a receipt for every event, or nothing moves any more: then what is missing
// is lost. It asks seldom, and the database only when the records are there, so as not to be part of the load.
func (b *stage) awaitRelayed(ctx context.Context, relay *relayprocess.Process, topic string, events int) error {
	client, err := broker.NewClient(b.Brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	var last int64 = -1
	moved := time.Now()
	return relay.Wait(ctx, func(ctx context.Context) (bool, error) {
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return false, err
		}
		records, err := appended(ctx, client, topic)
		if err != nil {
			return false, err
		}
		b.Progress("relayed", int(min(records, int64(events))), events)
		var receipts int64
		if records >= int64(events) {
			if err := b.db.QueryRowContext(ctx, "select count(*) from millrace.outbox_receipt").Scan(&receipts); err != nil {
				return false, fmt.Errorf("count receipts: %w", err)
			}
		}
		if records+receipts != last {
			last, moved = records+receipts, time.Now()
		}
		return receipts >= int64(events) || time.Since(moved) > patience, nil
	})
}

// appended is how many records a topic has, without reading them.
func appended(ctx context.Context, client *kgo.Client, topic string) (n int64, err error) {
	ends, err := broker.HighWatermarks(ctx, client, topic)
	for _, end := range ends {
		n += end
	}
	return n, err
}
