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
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/cmd/app/internal/relayprocess"
	"github.com/millrace-go/millrace/migrations"
)

// patience is how long nothing may move.
const patience = 30 * time.Second

// Relay measures. Whatever it makes, it removes.
func Relay(ctx context.Context, config Config) (figures Figures, err error) {
	b, err := newBench(ctx, config)
	if err != nil {
		return Figures{}, err
	}
	defer func() { err = errors.Join(err, b.remove(context.WithoutCancel(ctx))) }()
	events, err := b.preload(ctx)
	if err != nil {
		return Figures{}, fmt.Errorf("write events: %w", err)
	}
	raw, err := b.produceRaw(ctx, events)
	if err != nil {
		return Figures{}, fmt.Errorf("plain producer: %w", err)
	}
	records, cpu, rss, err := b.drain(ctx)
	if err != nil {
		return Figures{}, err
	}
	latencies, idle, err := b.rest(ctx)
	if err != nil {
		return Figures{}, err
	}
	figures = Figures{
		Events: config.Events, CPUSeconds: cpu.Seconds(), RSSMiB: float64(rss) / (1 << 20), IdleQueriesPerSecond: idle,
		P50Milliseconds: percentile(latencies, 50), P99Milliseconds: percentile(latencies, 99),
	}
	_, figures.LimitPerSecond = rate(raw)
	figures.Seconds, figures.EventsPerSecond = rate(records)
	figures.Lost, figures.Duplicated, figures.Reordered = compare(events, records)
	return figures, nil
}

type bench struct {
	Config
	name string // of the database
	url  string
	db   *sql.DB
}

func newBench(ctx context.Context, config Config) (*bench, error) {
	suffix := make([]byte, 4)
	_, _ = rand.Read(suffix) // never fails
	b := &bench{Config: config, name: "millrace_bench_" + hex.EncodeToString(suffix)}
	parsed, err := url.Parse(config.DatabaseURL)
	if err != nil {
		return nil, errors.New("database_url: can not be parsed")
	}
	parsed.Path = "/" + b.name
	b.url = parsed.String()
	if _, err := config.DB.ExecContext(ctx, "create database "+pq.QuoteIdentifier(b.name)); err != nil {
		return nil, fmt.Errorf("make a database to measure in: %w", err)
	}
	b.db, err = sql.Open("postgres", b.url)
	if err == nil {
		err = migrations.Up(ctx, b.db, migrations.Config{})
	}
	if err == nil {
		byBroker := "LogAppendTime"
		err = broker.CreateTopics(ctx, config.Brokers, partitions, map[string]*string{"message.timestamp.type": &byBroker},
			b.rawTopic(), b.relayTopic(), b.latencyTopic())
	}
	if err != nil {
		return nil, errors.Join(err, b.remove(context.WithoutCancel(ctx)))
	}
	return b, nil
}

func (b *bench) rawTopic() string     { return b.name + ".raw" }
func (b *bench) relayTopic() string   { return b.name + ".relay" }
func (b *bench) latencyTopic() string { return b.name + ".latency" }

func (b *bench) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	errs := []error{broker.DeleteTopics(ctx, b.Brokers, nil, []string{b.rawTopic(), b.relayTopic(), b.latencyTopic()})}
	if b.db != nil {
		errs = append(errs, b.db.Close())
	}
	_, err := b.DB.ExecContext(ctx, "drop database if exists "+pq.QuoteIdentifier(b.name)+" with (force)")
	return errors.Join(append(errs, err)...)
}

func (b *bench) startRelay() (*relayprocess.Process, error) {
	return relayprocess.Start(relayprocess.Config{
		DatabaseURL: b.url, Schema: migrations.DefaultSchema, Log: b.RelayLog,
		Environment: append([]string{relayprocess.Brokers(b.Brokers.Brokers)}, b.Environment...),
	})
}

// drain runs a relay until all events are on their topic and receipted, and reads them back.
func (b *bench) drain(ctx context.Context) (records []*kgo.Record, cpu time.Duration, rss int64, err error) {
	relay, err := b.startRelay()
	if err != nil {
		return nil, 0, 0, err
	}
	err = b.awaitReceipts(ctx, relay)
	rss, rssErr := relay.PeakRSS()
	if errors.Is(rssErr, errors.ErrUnsupported) {
		rssErr = nil
	}
	if err = errors.Join(err, rssErr, relay.Stop()); err != nil {
		return nil, 0, 0, err
	}
	cpu = relay.CPU()
	records, err = broker.ReadTopic(ctx, b.Brokers, b.relayTopic())
	return records, cpu, rss, err
}

// awaitReceipts waits until every event has a receipt, or nothing moves any more: then what is missing is lost. It asks
// seldom, so as not to be part of the load.
func (b *bench) awaitReceipts(ctx context.Context, relay *relayprocess.Process) error {
	last, moved := -1, time.Now()
	return relay.Wait(ctx, func(ctx context.Context) (bool, error) {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return false, ctx.Err()
		}
		var n int
		if err := b.db.QueryRowContext(ctx, "select count(*) from millrace.outbox_receipt").Scan(&n); err != nil {
			return false, err
		}
		b.Progress("relayed", n, b.Events)
		if n != last {
			last, moved = n, time.Now()
		}
		return n >= b.Events || time.Since(moved) > patience, nil
	})
}
