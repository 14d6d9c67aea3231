package handlers

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

var (
	// ErrTombstone says that an event without payload came to a handler that needs one. It is permanent; handle deletions
	// with Raw.
	ErrTombstone = errors.New("event has no payload (a tombstone): handle it with handlers.Raw")
	// ErrUndecodable says that the payload is no JSON of the handler's type. It is permanent. The text names type, field and
	// place, never the content.
	ErrUndecodable = errors.New("payload cannot be decoded")
)

// JSON makes a handler of a function that takes the payload decoded into a T and writes through the transaction.
//
// Errors: handle's own; ErrNoTx; permanent are ErrTombstone, ErrUndecodable and the Undecodable of event.Delivery.
func JSON[T any](handle func(ctx context.Context, tx *sql.Tx, e T) error) message.NoPublishHandlerFunc {
	return Raw(func(ctx context.Context, tx *sql.Tx, msg *message.Message) error {
		e, err := decode[T](msg)
		if err != nil {
			return err
		}
		return handle(ctx, tx, e)
	})
}

// JSONWithEvents is JSON for a function that also returns events. middleware.Dedup publishes them through its Outbox in the
// same transaction.
func JSONWithEvents[T any](handle func(ctx context.Context, tx *sql.Tx, e T) ([]*message.Message, error)) message.HandlerFunc {
	return func(msg *message.Message) (events []*message.Message, err error) {
		err = JSON(func(ctx context.Context, tx *sql.Tx, e T) error {
			events, err = handle(ctx, tx, e)
			return err
		})(msg)
		if err != nil {
			return nil, err
		}
		return events, nil
	}
}

func decode[T any](msg *message.Message) (T, error) {
	var e T
	if msg.Payload == nil {
		return e, event.Permanent(fmt.Errorf("handlers: %w", ErrTombstone))
	}
	if err := json.Unmarshal(msg.Payload, &e); err != nil {
		return e, event.Permanent(fmt.Errorf("handlers: %w into %s: %s", ErrUndecodable, reflect.TypeFor[T](), place(err)))
	}
	return e, nil
}

// place says where decoding failed. The decoder's own text may quote the payload.
func place(err error) string {
	var (
		syntax *json.SyntaxError
		kind   *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("invalid JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Sprintf("field %q does not fit %s, at byte %d", kind.Field, kind.Type, kind.Offset)
	}
	return fmt.Sprintf("%T", err)
}
