package middleware

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
)

// Dedup makes each event take effect once for its consumer. It begins a transaction, inserts the event's inbox row, runs the
// handler with the transaction in the message's context (event.TxFromContext), and commits: row and effect exist together
// or not at all. An event that has a row already is acknowledged without being handled. It needs DB and nothing else:
//
//	router.AddMiddleware(middleware.Dedup{DB: db}.Middleware)
//
// What the handler does through the transaction happens once, under any crash, takeover or redelivery. What it does elsewhere
// (another database, a mail) may happen again: make that idempotent itself, keyed by consumer and event_id.
//
// Messages the handler returns are published through Outbox in the same transaction and do not reach the router, which would
// publish them after the commit and could lose them. Their topic is OutboxTopic, else the one the handler was added to
// the router with. One without an event_id, or with that of the incoming event, gets an id derived from consumer,
// incoming event_id and index. causation_id, correlation_id and the trace context are carried on unless they are set.
//
// Errors: those of inbox.Store.Once; permanent are ErrMissingEventID, inbox.ErrPayloadMismatch, ErrNoOutbox, ErrNoOutboxTopic,
// event.ErrInvalid for an event_id that cannot be stored, and event.Delivery's Undecodable.
type Dedup struct {
	// DB is the database of the inbox and of the business tables; required.
	DB *sql.DB
	// Consumer names whose effect this is, default the router handler's name. Every consumer handles every event once, so
	// the name must stay the same, and two services on one database need different ones.
	Consumer string
	// Schema of the inbox, default inbox.DefaultSchema.
	Schema string
	// RequireEventID refuses records without event_id. By default their identity is derived from topic, partition, offset,
	// timestamp and body, where the subscriber tells them; a second copy of the record on the wire is another event then.
	RequireEventID bool
	// Outbox publishes what the handler returns in the transaction it finds in the message's context, as
	// outbox.NewContextPublisher does. It stays the caller's to close.
	Outbox message.Publisher
	// OutboxTopic is where it goes, default the handler's publish topic.
	OutboxTopic string

	// HandlerTimeout bounds the handler, default 30 s. An earlier deadline, as of Timeout, comes first; to give a handler more
	// time, raise both.
	HandlerTimeout time.Duration
	// IdleTimeout and LockTimeout: see inbox.Limits.
	IdleTimeout time.Duration
	LockTimeout time.Duration

	// OnApplied is called, from the message's goroutine, for each message whose effect has been committed.
	OnApplied func(msg *message.Message)
	// OnDuplicate is called, from the message's goroutine, for each message that is acknowledged without being handled.
	OnDuplicate func(msg *message.Message)
}

func (d Dedup) limits() inbox.Limits {
	return inbox.Limits{HandlerTimeout: d.HandlerTimeout, IdleTimeout: d.IdleTimeout, LockTimeout: d.LockTimeout}
}

// Validate names every bad field.
func (d Dedup) Validate() error {
	errs := []error{d.limits().Validate(), inbox.Config{Schema: d.Schema}.Validate()}
	if d.DB == nil {
		errs = append(errs, errors.New("DB is missing"))
	}
	if d.Consumer != "" {
		errs = append(errs, inbox.ValidateConsumer(d.Consumer))
	}
	if d.OutboxTopic != "" {
		errs = append(errs, event.ValidateTopic(d.OutboxTopic))
	}
	return errors.Join(errs...)
}

// Middleware is the router middleware. An invalid configuration fails every message, as an infrastructure error.
func (d Dedup) Middleware(h message.HandlerFunc) message.HandlerFunc {
	err := d.Validate()
	if err != nil {
		return misconfigured("Dedup", err)
	}
	store, err := inbox.NewStore(d.DB, inbox.Config{Schema: d.Schema})
	if err != nil {
		return misconfigured("Dedup", err)
	}
	return func(msg *message.Message) ([]*message.Message, error) { return nil, d.handle(store, h, msg) }
}

func (d Dedup) handle(store *inbox.Store, h message.HandlerFunc, msg *message.Message) error {
	delivery := msg.Context()
	defer msg.SetContext(delivery)
	e, err := d.identify(msg)
	if err != nil {
		return err
	}
	if msg.Metadata[event.IDKey] == "" { // for the handler: it may need the identity for effects of its own
		if msg.Metadata == nil {
			msg.Metadata = message.Metadata{}
		}
		msg.Metadata[event.IDKey] = e.ID
		defer delete(msg.Metadata, event.IDKey)
	}
	outcome, err := store.Once(delivery, e, d.limits(), func(ctx context.Context, tx *sql.Tx) error {
		msg.SetContext(ctx)
		produced, err := h(msg)
		if err != nil {
			return err
		}
		return d.publish(ctx, e, msg.Metadata, produced)
	})
	var hook func(*message.Message)
	switch outcome {
	case inbox.Applied:
		hook = d.OnApplied
	case inbox.Duplicate:
		hook = d.OnDuplicate
	}
	if hook != nil {
		msg.SetContext(delivery)
		hook(msg)
	}
	return err
}

func (d Dedup) identify(msg *message.Message) (inbox.Event, error) {
	e, err := incoming(msg, d.Consumer)
	if err != nil {
		return inbox.Event{}, err
	}
	if e.Delivery.Undecodable != nil {
		return inbox.Event{}, event.Permanent(fmt.Errorf("middleware: undecodable record: %w", e.Delivery.Undecodable))
	}
	if d.RequireEventID && !e.Replayed && e.Headers[event.IDKey] == "" {
		return inbox.Event{}, event.Permanent(fmt.Errorf("middleware: %w", ErrMissingEventID))
	}
	e.ID, err = identify(e)
	if err != nil {
		return inbox.Event{}, event.Permanent(fmt.Errorf("middleware: %w", err))
	}
	return e, nil
}
