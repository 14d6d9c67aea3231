package handlers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

// ErrNoTx says that the message's context carries no transaction: middleware.Dedup is missing from the router.
var ErrNoTx = errors.New("no transaction in the message's context: add middleware.Dedup")

// Raw makes a handler of a function that takes the whole message, whatever its payload is, tombstones included, and writes
// through the transaction.
//
// Errors: handle's own; ErrNoTx; permanent is the Undecodable of event.Delivery.
func Raw(handle func(ctx context.Context, tx *sql.Tx, msg *message.Message) error) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		ctx := msg.Context()
		if d, ok := event.DeliveryFromContext(ctx); ok && d.Undecodable != nil {
			return event.Permanent(fmt.Errorf("handlers: undecodable record: %w", d.Undecodable))
		}
		tx, ok := event.TxFromContext(ctx)
		if !ok {
			return fmt.Errorf("handlers: %w", ErrNoTx)
		}
		return handle(ctx, tx, msg)
	}
}
