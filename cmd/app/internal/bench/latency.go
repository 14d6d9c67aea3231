package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

const (
	latencyEvents   = 50
	latencyInterval = 100 * time.Millisecond
	idleSettle      = 12 * time.Second // until every backend has told the statistics what it did before
	idleWindow      = 6 * time.Second
)

// rest measures a relay with little and with nothing to do.
func (b *bench) rest(ctx context.Context) (latencies []time.Duration, idle float64, err error) {
	relay, err := b.startRelay()
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, relay.Stop()) }()
	latencies, err = b.latencies(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("latency: %w", err)
	}
	idle, err = b.idleQueries(ctx)
	return latencies, idle, err
}

// latencies commits one event after the other and takes the time until a consumer has it. The first ones, while relay and
// consumer find their way, do not count.
func (b *bench) latencies(ctx context.Context) ([]time.Duration, error) {
	client, err := broker.NewClient(b.Brokers, kgo.ConsumeTopics(b.latencyTopic()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	if err != nil {
		return nil, err
	}
	const warmUp = 5
	var all []time.Duration
	for n := range warmUp + latencyEvents {
		next := time.NewTimer(latencyInterval)
		msg, err := newEvent(b.Events + n)
		if err != nil {
			return nil, err
		}
		err = outbox.InTx(ctx, b.db, func(ctx context.Context, tx *sql.Tx) error {
			msg.SetContext(ctx)
			return publisher.Publish(b.latencyTopic(), msg)
		})
		if err != nil {
			return nil, err
		}
		committed := time.Now()
		if err := awaitEvent(ctx, client, msg.Metadata.Get(event.IDKey)); err != nil {
			return nil, err
		}
		if n >= warmUp {
			all = append(all, time.Since(committed))
		}
		b.Progress("one by one", n+1, warmUp+latencyEvents)
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return all, nil
}

func awaitEvent(ctx context.Context, client *kgo.Client, id string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			return failed.Err
		}
		for _, r := range fetches.Records() {
			if broker.Header(r, event.IDKey) == id {
				return nil
			}
		}
	}
}

// idleQueries counts the transactions of the relay while nothing happens. It asks from another database, so that its own are
// not among them.
func (b *bench) idleQueries(ctx context.Context) (float64, error) {
	count := func() (n int64, at time.Time, err error) {
		err = b.DB.QueryRowContext(ctx, "select xact_commit + xact_rollback from pg_stat_database where datname = $1", b.name).Scan(&n)
		return n, time.Now(), err
	}
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.db.SetMaxIdleConns(0) // what they did before is counted now
	if err := wait(idleSettle); err != nil {
		return 0, err
	}
	before, from, err := count()
	if err != nil {
		return 0, err
	}
	if err := wait(idleWindow); err != nil {
		return 0, err
	}
	after, to, err := count()
	return float64(after-before) / to.Sub(from).Seconds(), err
}
