package bench

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/outbox"
)

// writeTopic is where the events of transactions would go.
const writeTopic = "orders"

// contender is one of the two publishers.
type contender struct {
	publish   func(ctx context.Context, tx *sql.Tx, msg *message.Message) error
	rounds    []time.Duration
	each      []time.Duration
	committed int
}

// round runs transactions on as many connections. Each connection has accounts of its own: they do not wait for each other.
func (c *contender) round(ctx context.Context, b *stage, connections, count int, warmUp bool) error {
	took := make([][]time.Duration, connections)
	start := time.Now()
	all, ctx := errgroup.WithContext(ctx)
	for connection := range connections {
		all.Go(func() error {
			for n := connection; n < count; n += connections {
				began := time.Now()
				account := n/connections%own(connection, connections)*connections + connection
				if err := c.transact(ctx, b, account); err != nil {
					return err
				}
				took[connection] = append(took[connection], time.Since(began))
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	c.committed += count
	if warmUp {
		return nil
	}
	c.rounds = append(c.rounds, time.Since(start))
	for _, one := range took {
		c.each = append(c.each, one...)
	}
	return nil
}

// contenders are this publisher and Watermill's, on accounts for both.
func (b *stage) contenders(ctx context.Context) ([]*contender, error) {
	stock := wsql.DefaultPostgreSQLSchema{}
	statements := []wsql.Query{
		{Query: "create table account (id int primary key, balance bigint not null, version bigint not null)"},
		{Query: "insert into account select generate_series(0, $1 - 1), 0, 0", Args: []any{manyAggregates}},
	}
	for _, s := range append(statements, stock.SchemaInitializingQueries(writeTopic)...) {
		if _, err := b.db.ExecContext(ctx, s.Query, s.Args...); err != nil {
			return nil, fmt.Errorf("make accounts: %w", err)
		}
	}
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	if err != nil {
		return nil, err
	}
	return []*contender{
		{publish: func(ctx context.Context, _ *sql.Tx, msg *message.Message) error {
			msg.SetContext(ctx)
			return publisher.Publish(writeTopic, msg)
		}},
		{publish: func(_ context.Context, tx *sql.Tx, msg *message.Message) error {
			publisher, err := wsql.NewPublisher(tx, wsql.PublisherConfig{SchemaAdapter: stock}, nil)
			if err != nil {
				return err
			}
			return publisher.Publish(writeTopic, msg)
		}},
	}, nil
}

// transact is the business transaction. The row's new version is that of the event.
func (c *contender) transact(ctx context.Context, b *stage, account int) error {
	return outbox.InTx(ctx, b.db, func(ctx context.Context, tx *sql.Tx) error {
		var version int
		err := tx.QueryRowContext(ctx,
			"update account set balance = balance + 1, version = version + 1 where id = $1 returning version", account).Scan(&version)
		if err != nil {
			return fmt.Errorf("update account: %w", err)
		}
		return c.publish(ctx, tx, b.load.event((version-1)*manyAggregates+account))
	})
}
