package orders

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

// ProjectionConsumer is the consumer name of Project.
const ProjectionConsumer = "order-projection"

// ErrUnknownCurrency says that an order is in a currency the projection has not been told about. No retry mends that.
var ErrUnknownCurrency = errors.New("unknown currency")

// Project keeps the balance of each order and returns a notification for the customer. Everything it writes, the returned
// event included, commits together with the record that the event was handled. Use it with handlers.JSONWithEvents.
func Project(ctx context.Context, tx *sql.Tx, c Changed) ([]*message.Message, error) {
	var known bool
	err := tx.QueryRowContext(ctx, "select exists (select from millrace_demo.currency where code = $1)", c.Currency).Scan(&known)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, event.Permanent(fmt.Errorf("%w %q", ErrUnknownCurrency, c.Currency))
	}
	_, err = tx.ExecContext(ctx, `
		insert into millrace_demo.balance (order_id, cents) values ($1, $2)
		on conflict (order_id) do update set cents = balance.cents + excluded.cents`, c.OrderID, c.DueCents)
	if err != nil {
		return nil, err
	}
	if err := noteEffect(ctx, tx, ProjectionConsumer, c.OperationID, c.OrderID, c.Version); err != nil {
		return nil, err
	}
	if c.NotificationID() == "" {
		return nil, nil
	}
	payload, err := json.Marshal(Notification{
		ID: c.NotificationID(), OrderID: c.OrderID, Version: c.Version, Customer: c.Customer,
		Text: fmt.Sprintf("Your order %s is %s.", c.OrderID, c.State),
	})
	if err != nil {
		return nil, err
	}
	return []*message.Message{event.New("notification.requested", payload,
		event.WithID(c.NotificationID()), event.Aggregate("notification", c.OrderID, c.Version))}, nil
}

func noteEffect(ctx context.Context, tx *sql.Tx, consumer, eventID, orderID string, version int64) error {
	_, err := tx.ExecContext(ctx,
		"insert into millrace_demo.effect (consumer, event_id, order_id, version) values ($1, $2, $3, $4)",
		consumer, eventID, orderID, version)
	return err
}
