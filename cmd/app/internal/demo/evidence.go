package demo

import (
	"context"
	"database/sql"
	"strconv"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/examples/orders"
	"github.com/millrace-go/millrace/kafka"
)

// Evidence is everything the judgement rests on.
type Evidence struct {
	// Committed is the demo's journal of the changes the order service committed.
	Committed []orders.Changed
	// Orders and Notifications are the two topics, each ordered by partition and offset.
	Orders, Notifications []Record
	// DeadLetters are the original event_ids on the topic of dead letters.
	DeadLetters []string
	// Effects are the rows the handlers wrote, in the order they took effect.
	Effects []Effect
	// Balances are in cents, by order.
	Balances map[string]int64
}

// Record is what the judgement needs of a Kafka record.
type Record struct {
	EventID   string
	Aggregate string
	Version   int64
}

// Effect is a row of the effect table.
type Effect struct {
	Consumer, EventID, OrderID string
	Version                    int64
}

// gather reads topics and tables.
func gather(ctx context.Context, db *sql.DB, brokers kafka.Connection, topics Topics, committed []orders.Changed) (Evidence, error) {
	e := Evidence{Committed: committed, Balances: map[string]int64{}}
	for topic, into := range map[string]*[]Record{topics.Orders: &e.Orders, topics.Notifications: &e.Notifications} {
		records, err := broker.ReadTopic(ctx, brokers, topic)
		if err != nil {
			return Evidence{}, err
		}
		for _, r := range records {
			version, _ := strconv.ParseInt(broker.Header(r, event.AggregateVersionKey), 10, 64) // 0 is out of order, and shows
			*into = append(*into, Record{
				EventID: broker.Header(r, event.IDKey), Aggregate: broker.Header(r, event.AggregateIDKey), Version: version,
			})
		}
	}
	dead, err := broker.ReadTopic(ctx, brokers, topics.deadLetters())
	if err != nil {
		return Evidence{}, err
	}
	for _, r := range dead {
		e.DeadLetters = append(e.DeadLetters, broker.Header(r, event.OriginalIDKey))
	}
	rows, err := db.QueryContext(ctx, "select consumer, event_id, order_id, version from millrace_demo.effect order by id")
	if err != nil {
		return Evidence{}, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var f Effect
		if err := rows.Scan(&f.Consumer, &f.EventID, &f.OrderID, &f.Version); err != nil {
			return Evidence{}, err
		}
		e.Effects = append(e.Effects, f)
	}
	if err := rows.Err(); err != nil {
		return Evidence{}, err
	}
	balances, err := db.QueryContext(ctx, "select order_id, cents from millrace_demo.balance")
	if err != nil {
		return Evidence{}, err
	}
	defer func() { _ = balances.Close() }()
	for balances.Next() {
		var order string
		var cents int64
		if err := balances.Scan(&order, &cents); err != nil {
			return Evidence{}, err
		}
		e.Balances[order] = cents
	}
	return e, balances.Err()
}
