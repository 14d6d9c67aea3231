package bench

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/lib/pq"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/cmd/app/internal/relayprocess"
	"github.com/millrace-go/millrace/migrations"
)

// stage is the database and the topics that one measurement works on.
type stage struct {
	Config
	load   load
	name   string // of the database
	url    string
	db     *sql.DB
	topics []string

	foreign *sql.Tx // open if HoldTransaction
}

// on makes a stage, calls measure, and removes the stage.
func on(ctx context.Context, config Config, l load, topics []string, measure func(*stage) error) (err error) {
	suffix := make([]byte, 4)
	_, _ = rand.Read(suffix) // never fails
	b := &stage{Config: config, load: l, name: "millrace_bench_" + hex.EncodeToString(suffix)}
	for _, topic := range topics {
		b.topics = append(b.topics, b.topic(topic))
	}
	parsed, err := url.Parse(config.DatabaseURL)
	if err != nil {
		return errors.New("database_url: can not be parsed")
	}
	parsed.Path = "/" + b.name
	b.url = parsed.String()
	defer func() { err = errors.Join(err, b.remove(context.WithoutCancel(ctx))) }()
	err = b.set(ctx)
	if err == nil {
		err = measure(b)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // whatever else it looks like, a lost connection for instance
	}
	return err
}

func (b *stage) set(ctx context.Context) (err error) {
	if _, err := b.DB.ExecContext(ctx, "create database "+pq.QuoteIdentifier(b.name)); err != nil {
		return fmt.Errorf("make a database to measure in: %w", err)
	}
	if b.db, err = sql.Open("postgres", b.url); err != nil {
		return err
	}
	b.db.SetMaxIdleConns(Writers + 1)
	if err := migrations.Up(ctx, b.db, migrations.Config{}); err != nil {
		return err
	}
	if b.HoldTransaction {
		if b.foreign, err = holdTransaction(ctx, b.db); err != nil {
			return fmt.Errorf("hold a transaction: %w", err)
		}
	}
	if len(b.topics) == 0 {
		return nil
	}
	byBroker := "LogAppendTime"
	return broker.CreateTopics(ctx, b.Brokers, partitions, map[string]*string{"message.timestamp.type": &byBroker}, b.topics...)
}

// holdTransaction begins a transaction that has a transaction id: as long as it is open, no snapshot gets past it and no row
// that dies can be removed.
func holdTransaction(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "select pg_current_xact_id()"); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

func (b *stage) topic(name string) string { return b.name + "." + name }

func (b *stage) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errs []error
	if len(b.topics) > 0 {
		errs = append(errs, broker.DeleteTopics(ctx, b.Brokers, nil, b.topics))
	}
	if b.foreign != nil {
		if err := b.foreign.Rollback(); err != nil {
			errs = append(errs, fmt.Errorf("the transaction that was held has not lasted: %w", err))
		}
	}
	if b.db != nil {
		errs = append(errs, b.db.Close())
	}
	_, err := b.DB.ExecContext(ctx, "drop database if exists "+pq.QuoteIdentifier(b.name)+" with (force)")
	return errors.Join(append(errs, err)...)
}

// withRelay calls f while a relay runs, and says what the relay took.
func (b *stage) withRelay(f func(*relayprocess.Process) error) (u consumption, err error) {
	relay, err := relayprocess.Start(relayprocess.Config{
		DatabaseURL: b.url, Schema: migrations.DefaultSchema, Log: b.RelayLog,
		Environment: append([]string{relayprocess.Brokers(b.Brokers.Brokers)}, b.Environment...),
	})
	if err != nil {
		return consumption{}, err
	}
	err = f(relay)
	rss, rssErr := relay.PeakRSS()
	told := rssErr == nil
	if errors.Is(rssErr, errors.ErrUnsupported) || err != nil { // a relay that is gone has no memory
		rssErr = nil
	}
	if err = errors.Join(err, rssErr, relay.Stop()); err != nil {
		return consumption{}, err
	}
	return consumption{cpu: relay.CPU(), rssMiB: float64(rss) / (1 << 20), rssTold: told}, nil
}

// deadTuples asks the statistics for rows that died.
func (b *stage) deadTuples(ctx context.Context) (dead Tuples, err error) {
	for table, into := range map[string]*int64{"outbox": &dead.Outbox, "outbox_receipt": &dead.Receipt} {
		err := b.db.QueryRowContext(ctx,
			"select n_dead_tup from pg_stat_user_tables where schemaname = 'millrace' and relname = $1", table).Scan(into)
		if err != nil {
			return Tuples{}, fmt.Errorf("dead tuples of %s: %w", table, err)
		}
	}
	return dead, nil
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
