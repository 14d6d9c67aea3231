package orders

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

// Why an operation is refused. Nothing of a refused operation is kept, its event included.
var (
	ErrOutOfStock   = errors.New("out of stock")
	ErrCardDeclined = errors.New("card declined")
	ErrWrongState   = errors.New("the order's state does not allow it")
	ErrNoOrder      = errors.New("no such order")
	ErrApplied      = errors.New("the operation was applied before")
)

// Refused says whether err is the service's own answer, rather than a failure.
func Refused(err error) bool {
	for _, refusal := range []error{ErrOutOfStock, ErrCardDeclined, ErrWrongState, ErrNoOrder, ErrApplied, outbox.ErrVersionConflict} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// Service applies operations. It is safe for concurrent use.
type Service struct {
	db        *sql.DB
	publisher *outbox.ContextPublisher
	tables    outbox.Tables
	topic     string
}

// NewService makes a service that writes its events for the topic. tables are those the publisher writes to.
func NewService(db *sql.DB, publisher *outbox.ContextPublisher, tables outbox.Tables, topic string) *Service {
	return &Service{db: db, publisher: publisher, tables: tables, topic: topic}
}

// Apply carries the operation out and writes its event, in one transaction. See Refused for errors. When the answer to the
// COMMIT is lost, it finds out what became of it.
func (s *Service) Apply(ctx context.Context, o Operation) (Changed, error) {
	var changed Changed
	err := outbox.InTx(ctx, s.db, func(ctx context.Context, tx *sql.Tx) (err error) {
		if o.Kind == Create {
			changed, err = s.create(ctx, tx, o)
		} else {
			changed, err = s.advance(ctx, tx, o)
		}
		return err
	})
	if errors.Is(err, outbox.ErrOutcomeUnknown) {
		outcome, lookupErr := s.tables.Lookup(ctx, s.db, o.ID)
		if lookupErr == nil && outcome.Committed {
			err = nil
		}
	}
	if errors.Is(err, outbox.ErrConflict) {
		err = errors.Join(ErrApplied, err)
	}
	if err != nil {
		return Changed{}, fmt.Errorf("orders: %s %s: %w", o.Kind, o.OrderID, err)
	}
	return changed, nil
}

func (s *Service) create(ctx context.Context, tx *sql.Tx, o Operation) (Changed, error) {
	changed := Changed{
		OperationID: o.ID, OrderID: o.OrderID, Version: 1, State: Created,
		Customer: o.Customer, AmountCents: o.AmountCents, Currency: o.Currency, DueCents: o.AmountCents,
	}
	if err := s.publish(ctx, tx, changed); err != nil {
		return Changed{}, err
	}
	inserted, err := tx.ExecContext(ctx, `
		insert into millrace_demo.orders (id, version, state, customer, sku, quantity, amount_cents, currency)
		values ($1, 1, $2, $3, $4, $5, $6, $7) on conflict do nothing`,
		o.OrderID, Created, o.Customer, o.SKU, o.Quantity, o.AmountCents, o.Currency)
	if err != nil {
		return Changed{}, err
	}
	if n, err := inserted.RowsAffected(); err != nil || n == 0 {
		return Changed{}, errors.Join(ErrWrongState, err)
	}
	reserved, err := tx.ExecContext(ctx,
		"update millrace_demo.stock set available = available - $2 where sku = $1 and available >= $2", o.SKU, o.Quantity)
	if err != nil {
		return Changed{}, err
	}
	if n, err := reserved.RowsAffected(); err != nil || n == 0 {
		return Changed{}, errors.Join(ErrOutOfStock, err)
	}
	return changed, nil
}

// rules says from which states an operation leads where.
var rules = map[Kind]struct {
	from []string
	to   string
}{
	Pay:    {from: []string{Created}, to: Paid},
	Ship:   {from: []string{Paid}, to: Shipped},
	Cancel: {from: []string{Created, Paid}, to: Cancelled},
}

func (s *Service) advance(ctx context.Context, tx *sql.Tx, o Operation) (Changed, error) {
	var state string
	changed := Changed{OperationID: o.ID, OrderID: o.OrderID, State: rules[o.Kind].to}
	err := tx.QueryRowContext(ctx,
		"select state, version, customer, amount_cents, currency from millrace_demo.orders where id = $1", o.OrderID).
		Scan(&state, &changed.Version, &changed.Customer, &changed.AmountCents, &changed.Currency)
	if errors.Is(err, sql.ErrNoRows) {
		return Changed{}, ErrNoOrder
	}
	if err != nil {
		return Changed{}, err
	}
	seen := changed.Version
	if o.ExpectedVersion != 0 {
		seen = o.ExpectedVersion
	}
	changed.Version = seen + 1
	if state == Created && o.Kind != Ship {
		changed.DueCents = -changed.AmountCents // paid, or given up
	}
	// The row first: its lock puts the events of one order into the order of their versions.
	err = outbox.UpdateVersioned(ctx, tx,
		"update millrace_demo.orders set state = $3, version = version + 1 where id = $1 and version = $2",
		o.OrderID, seen, changed.State)
	if err != nil {
		return Changed{}, err
	}
	if err := s.publish(ctx, tx, changed); err != nil {
		return Changed{}, err
	}
	if !slices.Contains(rules[o.Kind].from, state) {
		return Changed{}, fmt.Errorf("%w: %s", ErrWrongState, state)
	}
	if o.CardDeclined {
		return Changed{}, ErrCardDeclined
	}
	return changed, nil
}

func (s *Service) publish(ctx context.Context, tx *sql.Tx, changed Changed) error {
	msg, err := changed.Message()
	if err != nil {
		return err
	}
	return s.publisher.Publish(s.topic, event.InTx(ctx, msg, tx))
}
