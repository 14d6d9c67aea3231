package middleware

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
)

// DeadLetter ends the delivery of a message that failed for good: it is kept, then acknowledged. It has two modes.
//
// With DB, the whole event goes to the inbox in state dead, from where it can be replayed, and a record of it goes to Topic
// through Publisher, both in one transaction. An event that anyone has disposed of meanwhile is acknowledged, nothing else.
// Publisher must write in the transaction it finds in the message's context, as outbox.NewContextPublisher does; without
// one there is only the inbox row.
//
// Without DB, the record is published through any Publisher, as Watermill's PoisonQueue does.
//
// The record has the payload unchanged, the original metadata, and the keys of this package. Its event_id is
// "dlq:<consumer>:<event_id>:<n>" for the n-th death, with a hash for the middle part where that would be too long; in the
// rare case that another death has that id in the outbox already (the inbox row was deleted since, or a colon in a name makes
// two pairs alike), a random UUID takes the middle part. Its partition key is the original record key if that is text; any
// other is in key_poisoned alone. original_event_id is the event's own; what described the event itself
// (aggregate, version, kind) is there with the prefix "original_". Error texts are cut, to fit into MaxBytes, escaped, and free
// of row data that database errors quote.
//
// Not given up, but returned as they are for another delivery, are infrastructure errors, and every error once the delivery's
// context has ended, which comes with event.ErrNotAttempted. If the dead letter cannot be written, that error is joined to
// the message's own. With DB, a record that Publisher refuses for good (a permanent event.ErrInvalid, as for one that is
// too large) does not hold up the inbox row: it is left out, and logged.
type DeadLetter struct {
	// DB is the database of the inbox.
	DB *sql.DB
	// Schema of the inbox, default inbox.DefaultSchema.
	Schema string
	// Consumer must be the one of Dedup, default the router handler's name.
	Consumer string
	// Publisher publishes the record. It stays the caller's to close.
	Publisher message.Publisher
	// Topic of the records, default the event's topic with ".dlq" behind it; where that is no topic name Kafka accepts, a
	// shortened one with a hash.
	Topic string
	// MaxBytes is how large a record of Topic may be, default 1,048,588, Kafka's own default. The error texts shrink to
	// fit; the payload never does. An outbox publisher has a limit of its own, MaxRecordBytes: give it this one.
	MaxBytes int
	// Logger gets one error line a dead letter, without payload; nil for none.
	Logger watermill.LoggerAdapter
}

func (d *DeadLetter) setDefaults() {
	if d.MaxBytes == 0 {
		d.MaxBytes = 1_048_588
	}
	if d.Logger == nil {
		d.Logger = watermill.NopLogger{}
	}
}

// Validate names every bad field.
func (d DeadLetter) Validate() error {
	errs := []error{inbox.Config{Schema: d.Schema}.Validate()}
	if d.DB == nil && d.Publisher == nil {
		errs = append(errs, errors.New("DB and Publisher are both missing"))
	}
	if d.Consumer != "" {
		errs = append(errs, inbox.ValidateConsumer(d.Consumer))
	}
	if d.MaxBytes < 0 {
		errs = append(errs, errors.New("MaxBytes is negative"))
	}
	return errors.Join(errs...)
}

// Middleware is the router middleware. An invalid configuration fails every message, as an infrastructure error.
func (d DeadLetter) Middleware(h message.HandlerFunc) message.HandlerFunc {
	d.setDefaults()
	err := d.Validate()
	var store *inbox.Store
	if err == nil && d.DB != nil {
		store, err = inbox.NewStore(d.DB, inbox.Config{Schema: d.Schema})
	}
	if err != nil {
		return misconfigured("DeadLetter", err)
	}
	return func(msg *message.Message) ([]*message.Message, error) { return d.handle(store, h, msg) }
}

func (d DeadLetter) handle(store *inbox.Store, h message.HandlerFunc, msg *message.Message) ([]*message.Message, error) {
	ctx := msg.Context()
	defer msg.SetContext(ctx)
	original := message.Message{UUID: msg.UUID, Metadata: maps.Clone(msg.Metadata), Payload: msg.Payload} // handlers may change theirs
	original.SetContext(ctx)

	produced, err := h(msg)
	switch {
	case err == nil:
		return produced, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("middleware: %w: %w: %w", event.ErrNotAttempted, ctx.Err(), err)
	case inbox.IsInfrastructure(err):
		return nil, err
	}
	if buryErr := d.bury(store, &original, err); buryErr != nil {
		return nil, errors.Join(err, buryErr)
	}
	return nil, nil
}

// bury keeps the message. It has to come to an end even when a shutdown begins meanwhile.
func (d DeadLetter) bury(store *inbox.Store, msg *message.Message, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(msg.Context()), settleTimeout)
	defer cancel()
	e, err := incoming(msg, d.Consumer)
	if err != nil {
		return err
	}
	e.ID = buryID(e, msg.UUID, cause)
	first := cause
	var retried *RetryError
	if errors.As(cause, &retried) {
		first, e.Attempts = retried.First, retried.Attempts
	}
	death := inbox.Death{Class: classify(cause), FirstError: describe(first), LastError: describe(cause), Stack: stack(cause)}

	outcome := inbox.Applied
	publish := func(ctx context.Context, tx *sql.Tx, deaths int) error {
		if d.Publisher == nil {
			return nil
		}
		record := d.record(msg, e, death, deaths)
		record.SetContext(ctx)
		topic := d.topic(e.Delivery.Topic)
		err := d.publish(ctx, tx, topic, record, deadLetterID(e.Consumer, uuid.NewString(), deaths))
		if store != nil && event.IsPermanent(err) && errors.Is(err, event.ErrInvalid) {
			// Refused for good, before anything was written. The event is in the inbox, and a loop would help nobody.
			d.Logger.Error("Dead letter has no record on its topic", err, watermill.LogFields{"event_id": e.ID, "topic": topic})
			return nil
		}
		return err
	}
	if store == nil {
		err = publish(ctx, nil, 1)
	} else {
		outcome, err = store.Bury(ctx, e, death, publish)
	}
	if err != nil {
		return fmt.Errorf("middleware: dead letter: %w", err)
	}
	if outcome == inbox.Applied {
		d.Logger.Error("Event is given up", errors.New(death.LastError), watermill.LogFields{
			"consumer": e.Consumer, "event_id": e.ID, "topic": e.Delivery.Topic, "attempts": e.Attempts, "error_class": death.Class,
		})
	}
	return nil
}

// publish publishes the record, under the spare id if its own is taken. It is never that of the same death: a record that is
// there committed together with the inbox row, and Bury would not have come this far.
func (d DeadLetter) publish(ctx context.Context, tx *sql.Tx, topic string, record *message.Message, spareID string) error {
	if tx == nil {
		return d.Publisher.Publish(topic, record)
	}
	if _, err := tx.ExecContext(ctx, "savepoint dead_letter_record"); err != nil {
		return err
	}
	err := d.Publisher.Publish(topic, record)
	if !isUniqueViolation(err) {
		return err
	}
	if _, back := tx.ExecContext(ctx, "rollback to savepoint dead_letter_record"); back != nil {
		return errors.Join(err, back)
	}
	record.UUID, record.Metadata[event.IDKey] = spareID, spareID
	return d.Publisher.Publish(topic, record)
}

func isUniqueViolation(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && state.SQLState() == "23505"
}
