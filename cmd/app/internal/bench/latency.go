package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/cmd/app/internal/relayprocess"
	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

const (
	restEvents = 50 // of a measurement that is about something else
	restRate   = 10

	// settleEvents go ahead, at the same pace, while relay and consumer find their way.
	settleEvents = 10
)

// Latency measures how long an event takes from its commit to a consumer while few are written, one at a time, and what a
// relay asks the database while there are none.
func Latency(ctx context.Context, config Config) (f Figures, err error) {
	err = on(ctx, config, load{manyAggregates}, []string{"latency"}, func(b *stage) error {
		f, err = b.quiet(ctx, 0, b.Events, b.Rate)
		return err
	})
	return f, err
}

// rest adds what a quiet relay does to what was measured of a busy one. first is the number of the next event.
func (b *stage) rest(ctx context.Context, first int, f *Figures) error {
	quiet, err := b.quiet(ctx, first, restEvents, restRate)
	if err != nil {
		return err
	}
	f.P50Milliseconds, f.P99Milliseconds = quiet.P50Milliseconds, quiet.P99Milliseconds
	f.IdleQueriesPerSecond, f.DeadTuples = quiet.IdleQueriesPerSecond, quiet.DeadTuples
	f.also(quiet)
	return nil
}

// quiet measures a relay with little and with nothing to do. first is the number of its first event.
func (b *stage) quiet(ctx context.Context, first, events int, perSecond float64) (f Figures, err error) {
	used, err := b.withRelay(func(*relayprocess.Process) error {
		latencies, err := b.latencies(ctx, first, events, perSecond)
		if err != nil {
			return fmt.Errorf("latency: %w", err)
		}
		f.waited(latencies)
		idle, err := b.idleQueries(ctx)
		f.IdleQueriesPerSecond = some(idle)
		return err
	})
	if err != nil {
		return Figures{}, err
	}
	f.Events = events
	f.used(used)
	t := newTally(b.load, settleEvents+events)
	var m meter
	err = broker.Scan(ctx, b.Brokers, b.topic("latency"), func(r *kgo.Record) {
		t.add(r)
		if n, ok := number(broker.Header(r, event.IDKey)); ok && n >= first+settleEvents {
			m.add(r.Timestamp)
		}
	})
	if err != nil {
		return Figures{}, err
	}
	f.Seconds, f.EventsPerSecond = m.rate()
	f.counted(t)
	f.DeadTuples, err = b.deadTuples(ctx)
	return f, err
}

// latencies commits events at a pace, whether or not those before have arrived, and takes the time until a consumer has each.
func (b *stage) latencies(ctx context.Context, first, events int, perSecond float64) ([]time.Duration, error) {
	client, err := broker.NewClient(b.Brokers, kgo.ConsumeTopics(b.topic("latency")), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	if err != nil {
		return nil, err
	}
	total := settleEvents + events
	committed, arrived := make([]time.Time, total), make([]time.Time, total)
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		start := time.Now()
		for n := range total {
			due := start.Add(time.Duration(float64(n) / perSecond * float64(time.Second)))
			if err := pause(ctx, time.Until(due)); err != nil {
				return err
			}
			if committed[n], err = b.write(ctx, publisher, b.topic("latency"), first+n); err != nil {
				return err
			}
		}
		return nil
	})
	both.Go(func() error { return b.arrivals(ctx, client, first, arrived) })
	if err := both.Wait(); err != nil {
		return nil, err
	}
	all := make([]time.Duration, 0, events)
	for n := settleEvents; n < total; n++ {
		// An event may be seen before the answer to its COMMIT is.
		all = append(all, max(0, arrived[n].Sub(committed[n])))
	}
	return all, nil
}

// write commits one event and says when that returned.
func (b *stage) write(ctx context.Context, publisher *outbox.ContextPublisher, topic string, n int) (time.Time, error) {
	err := outbox.InTx(ctx, b.db, func(ctx context.Context, _ *sql.Tx) error {
		msg := b.load.event(n)
		msg.SetContext(ctx)
		return publisher.Publish(topic, msg)
	})
	return time.Now(), err
}

// arrivals waits for every event.
func (b *stage) arrivals(ctx context.Context, client *kgo.Client, first int, arrived []time.Time) error {
	for left := len(arrived); left > 0; {
		poll, cancel := context.WithTimeout(ctx, patience)
		fetches := client.PollFetches(poll)
		cancel()
		now := time.Now()
		for _, failed := range fetches.Errors() {
			if errors.Is(failed.Err, context.DeadlineExceeded) && ctx.Err() == nil {
				return fmt.Errorf("no event came for %s, %d are missing", patience, left)
			}
			return failed.Err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n, ok := number(broker.Header(r, event.IDKey))
			if n -= first; ok && n >= 0 && n < len(arrived) && arrived[n].IsZero() {
				arrived[n] = now
				left--
			}
		})
		b.Progress("at a pace", len(arrived)-left, len(arrived))
	}
	return nil
}
