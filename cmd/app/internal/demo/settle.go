package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/examples/orders"
	"github.com/millrace-go/millrace/inbox"
)

// patience is how long nothing may move before the demo stops waiting and judges what is there.
const patience = 30 * time.Second

// pollInterval is how often it looks.
const pollInterval = 100 * time.Millisecond

var errStalled = errors.New("nothing moves any more")

// settle waits until everything that was committed has taken effect: first what can, then, after the repair and a replay,
// what could not.
func (d *run) settle(ctx context.Context) error {
	poison, due, err := d.expected(ctx)
	if err != nil {
		return err
	}
	err = d.await(ctx, "effects", func(ctx context.Context) (int, int, error) {
		n, err := d.effects(ctx)
		return n, due, err
	})
	if err == nil && d.config.Chaos {
		err = errors.Join(d.duplicate(ctx, d.config.Topics.Orders), d.duplicate(ctx, d.config.Topics.Notifications))
	}
	if err == nil && len(poison) > 0 {
		err = d.repair(ctx, poison, due)
	}
	if err == nil {
		err = d.drain(ctx)
	}
	if errors.Is(err, errStalled) {
		d.config.Say("%v: judging what is there", err)
		return nil
	}
	return err
}

// expected returns the committed changes no handler can take, and how many effects the others lead to.
func (d *run) expected(ctx context.Context) (poison []orders.Changed, due int, err error) {
	known := map[string]bool{}
	rows, err := d.db.QueryContext(ctx, "select code from millrace_demo.currency")
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var code string
		if err := rows.Scan(&code); err != nil {
			return nil, 0, err
		}
		known[code] = true
	}
	for _, c := range d.shop.committed {
		if !known[c.Currency] {
			poison = append(poison, c)
			continue
		}
		due += effectsOf(c)
	}
	return poison, due, rows.Err()
}

func effectsOf(c orders.Changed) int {
	if c.NotificationID() == "" {
		return 1
	}
	return 2
}

func (d *run) effects(ctx context.Context) (n int, err error) {
	err = d.db.QueryRowContext(ctx, "select count(*) from millrace_demo.effect").Scan(&n)
	return n, err
}

// repair does what an operator would: look at the dead letters, mend the cause, replay.
func (d *run) repair(ctx context.Context, poison []orders.Changed, due int) error {
	err := d.await(ctx, "dead letters on their topic", func(ctx context.Context) (int, int, error) {
		n, err := d.onTopic(ctx, d.config.Topics.deadLetters())
		return n, len(poison), err
	})
	if err != nil {
		return err
	}
	store, err := inbox.NewStore(d.db, inbox.Config{Schema: d.config.Schema})
	if err != nil {
		return err
	}
	dead, err := store.List(ctx, inbox.Filter{Consumer: d.config.Consumers.Projection, Limit: inbox.MaxPage})
	if err != nil {
		return err
	}
	currencies := map[string]bool{}
	for _, c := range poison {
		currencies[c.Currency] = true
		due += effectsOf(c)
	}
	for code := range maps.Keys(currencies) {
		if err := orders.AcceptCurrency(ctx, d.db, code); err != nil {
			return err
		}
	}
	d.config.Say("%d dead-lettered; now the currencies %v are accepted and the events are replayed",
		len(dead), slices.Sorted(maps.Keys(currencies)))
	for _, letter := range dead {
		if err := store.Replay(ctx, letter.Consumer, letter.EventID, inbox.By{Actor: "demo", Reason: "currency accepted"}); err != nil {
			return err
		}
	}
	return d.await(ctx, "effects", func(ctx context.Context) (int, int, error) {
		n, err := d.effects(ctx)
		return n, due, err
	})
}

// drain waits until the handlers have seen every record, the duplicates among them: an effect that is there twice must
// have had its chance.
func (d *run) drain(ctx context.Context) error {
	client, err := broker.NewClient(d.config.Brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	return d.await(ctx, "handlers", func(ctx context.Context) (int, int, error) {
		lags, err := admin.Lag(ctx, d.config.Consumers.All()...)
		if err == nil {
			err = lags.Error()
		}
		if err != nil {
			return 0, 0, fmt.Errorf("lag: %w", err)
		}
		behind := 0
		for _, group := range lags {
			behind += int(group.Lag.Total())
		}
		return -behind, 0, nil
	})
}

// await polls until done reaches total, and gives up when done has not changed for too long.
func (d *run) await(ctx context.Context, stage string, look func(context.Context) (done, total int, err error)) error {
	last, moved := -1<<62, time.Now()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		done, total, err := look(ctx)
		if err != nil {
			return err
		}
		if total > 0 {
			d.config.Progress(stage, min(done, total), total)
		}
		if done >= total {
			return nil
		}
		if done != last {
			last, moved = done, time.Now()
		}
		if time.Since(moved) > patience {
			return fmt.Errorf("%w: %s at %d of %d", errStalled, stage, done, total)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
