package bench

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/lib/pq"

	"github.com/millrace-go/millrace/migrations"
)

const (
	// writeRounds is how often the two publishers take turns.
	writeRounds = 5
	// writeWarmUp is how many transactions of each go ahead.
	writeWarmUp = 200
)

// Writes is the cost of a business transaction with an event in it, at a number of connections.
type Writes struct {
	Connections int
	Events      int // of each publisher
	Seconds     float64
	Stock       float64 // seconds of the same transactions with Watermill's publisher

	EventsPerSecond, StockPerSecond float64
	// P50Milliseconds and P99Milliseconds are of one transaction, begin to commit.
	P50Milliseconds, P99Milliseconds           float64
	StockP50Milliseconds, StockP99Milliseconds float64

	Lost, Reordered int
}

// Ratio is the time a transaction takes over the time it takes with Watermill's publisher.
func (w Writes) Ratio() float64 { return w.Seconds / w.Stock }

// Write measures a transaction that changes one row by its key and writes one event, with this publisher and with
// Watermill's, in turns. What is written is counted in the outbox.
func Write(ctx context.Context, config Config) (all []Writes, err error) {
	for _, connections := range []int{1, Writers} {
		err := on(ctx, config, load{manyAggregates}, nil, func(b *stage) error {
			w, err := b.compareWrites(ctx, connections)
			all = append(all, w)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%d connections: %w", connections, err)
		}
	}
	return all, nil
}

func (b *stage) compareWrites(ctx context.Context, connections int) (Writes, error) {
	contenders, err := b.contenders(ctx)
	if err != nil {
		return Writes{}, err
	}
	b.db.SetMaxOpenConns(connections)
	size := max(connections, (b.Events+writeRounds-1)/writeRounds)
	for round := range writeRounds + 1 {
		for turn := range contenders {
			c := contenders[(turn+round)%len(contenders)] // each is the first of its round as often as the other
			count := size
			if round == 0 {
				count = min(size, max(writeWarmUp, connections))
			}
			if err := c.round(ctx, b, connections, count, round == 0); err != nil {
				return Writes{}, err
			}
		}
		b.Progress(fmt.Sprintf("%d connections, rounds", connections), round, writeRounds)
	}
	w := Writes{
		Connections: connections, Events: writeRounds * size,
		P50Milliseconds: percentile(contenders[0].each, 50), P99Milliseconds: percentile(contenders[0].each, 99),
		StockP50Milliseconds: percentile(contenders[1].each, 50), StockP99Milliseconds: percentile(contenders[1].each, 99),
	}
	w.Seconds = writeRounds * median(contenders[0].rounds).Seconds()
	w.Stock = writeRounds * median(contenders[1].rounds).Seconds()
	w.EventsPerSecond, w.StockPerSecond = float64(w.Events)/w.Seconds, float64(w.Events)/w.Stock
	w.Lost, w.Reordered, err = b.countWritten(ctx, contenders[0].committed)
	return w, err
}

//go:embed written.sql
var writtenSQL string

// countWritten looks for the events of committed transactions in the outbox, and for the order of each account's.
func (b *stage) countWritten(ctx context.Context, committed int) (lost, reordered int, err error) {
	var there int
	query := strings.ReplaceAll(writtenSQL, "{{schema}}", pq.QuoteIdentifier(migrations.DefaultSchema))
	if err := b.db.QueryRowContext(ctx, query).Scan(&there, &reordered); err != nil {
		return 0, 0, fmt.Errorf("count events: %w", err)
	}
	return committed - there, reordered, nil
}
