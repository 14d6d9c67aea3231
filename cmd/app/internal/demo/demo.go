package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/examples/orders"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/middleware"
	"github.com/millrace-go/millrace/outbox"
	"github.com/millrace-go/millrace/pipeline"
)

// Run runs the demo and judges it. An error means that it could not be carried out; what went wrong with events is in the
// result.
func Run(ctx context.Context, db *sql.DB, config Config) (result Result, err error) {
	d := &run{config: config, db: db, shop: newShop(), faults: &faults{on: config.Chaos}}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.start(ctx); err != nil {
		return Result{}, err
	}
	if err := d.sell(ctx); err != nil {
		return Result{}, err
	}
	if err := d.settle(ctx); err != nil {
		return Result{}, err
	}
	if err := d.stop(); err != nil {
		return Result{}, err
	}
	evidence, err := gather(ctx, db, config.Brokers, config.Topics, d.shop.committed)
	if err != nil {
		return Result{}, fmt.Errorf("gather evidence: %w", err)
	}
	if config.Tamper != nil {
		config.Tamper(&evidence)
	}
	result = Result{Verdict: Judge(evidence), RolledBack: d.shop.rolledBack, Retries: d.faults.count(), Killed: d.killed}
	err = db.QueryRowContext(ctx, "select count(*) from millrace_demo.orders").Scan(&result.Orders)
	return result, err
}

type run struct {
	config Config
	db     *sql.DB
	shop   *shop
	faults *faults

	relays   relays
	killed   int
	pipeline *pipeline.Pipeline
	handling chan error
}

// start brings relays and handlers up and waits until they work.
func (d *run) start(ctx context.Context) error {
	if !d.config.Chaos {
		if err := orders.AcceptCurrency(ctx, d.db, orders.UnknownCurrency); err != nil {
			return err
		}
	}
	d.relays = relays{config: d.config, db: d.db}
	for range d.config.Relays {
		if err := d.relays.add(); err != nil {
			return err
		}
	}
	var err error
	d.pipeline, err = pipeline.New(d.db, pipeline.Config{
		Connection: d.config.Brokers, Schema: d.config.Schema, ConsumeOnly: true,
		Retry:          middleware.Retry{InitialInterval: 20 * time.Millisecond},
		ReplayInterval: 200 * time.Millisecond,
	}, d.config.Logger)
	if err != nil {
		return err
	}
	topics := d.config.Topics
	err = errors.Join(
		d.pipeline.HandleWithEvents(d.config.Consumers.Projection, topics.Orders, topics.Notifications,
			handlers.JSONWithEvents(orders.Project), d.faults.middleware(orders.ProjectionConsumer)),
		d.pipeline.Handle(d.config.Consumers.Notification, topics.Notifications,
			handlers.JSON(orders.Notify), d.faults.middleware(orders.NotificationConsumer)),
	)
	if err != nil {
		return err
	}
	d.handling = make(chan error, 1)
	go func() { d.handling <- d.pipeline.Run(context.WithoutCancel(ctx)) }()
	select {
	case <-d.pipeline.Running():
	case err := <-d.handling:
		d.handling = nil
		return errors.Join(errors.New("the handlers ended by themselves"), err)
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.relays.ready(ctx)
}

// stop ends handlers and relays and waits for them. It may be called again.
func (d *run) stop() error {
	var errs []error
	if d.handling != nil {
		errs = append(errs, d.pipeline.Close(), <-d.handling)
		d.handling = nil
	}
	return errors.Join(append(errs, d.relays.stop())...)
}

// sell has the order service carry out all operations, and makes the trouble that belongs in the middle of it.
func (d *run) sell(ctx context.Context) error {
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{Schema: d.config.Schema}, d.config.Logger)
	if err != nil {
		return err
	}
	defer func() { _ = publisher.Close() }()
	service := orders.NewService(d.db, publisher, outbox.Tables{Schema: d.config.Schema}, d.config.Topics.Orders)
	total := len(d.config.Operations)
	return d.shop.open(ctx, service, func(do func(orders.Operation) error) error {
		for n, operation := range d.config.Operations {
			if d.config.Chaos && n == total/3 {
				if err := d.killRelay(ctx); err != nil {
					return err
				}
			}
			if d.config.Chaos && n == total*2/3 {
				if err := d.duplicate(ctx, d.config.Topics.Orders); err != nil {
					return err
				}
			}
			if err := do(operation); err != nil {
				return err
			}
			d.config.Progress("operations", n+1, total)
		}
		return nil
	})
}
