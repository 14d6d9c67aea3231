package outbox

import (
	"database/sql"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// Publisher writes events to the outbox in one transaction of the caller's. It is a message.Publisher for code that has the
// transaction at hand; ContextPublisher is the long-lived one.
//
// It neither commits nor rolls back, and like the transaction it is for one goroutine at a time.
type Publisher struct {
	writer *writer
	tx     *sql.Tx
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher makes a publisher bound to tx. A nil tx is ErrNoTx; a nil logger is silent.
func NewPublisher(tx *sql.Tx, config PublisherConfig, logger watermill.LoggerAdapter) (*Publisher, error) {
	if tx == nil {
		return nil, fmt.Errorf("outbox: publisher: %w", ErrNoTx)
	}
	w, err := newWriter(config, logger)
	if err != nil {
		return nil, err
	}
	return &Publisher{w, tx}, nil
}

// Publish writes the messages in their order. The context of the first message governs the statements. After any error but a
// refusal roll the transaction back: a long list is several statements, and some of them may have been run.
//
// Everything is checked before any SQL: a message that is refused with event.ErrInvalid, which is a permanent error naming
// all that is wrong, leaves the transaction usable. After an error of the database PostgreSQL has aborted the transaction,
// ErrConflict among them. No messages are no error and no SQL.
//
// The identity of an event is its metadata event_id, else the message UUID; the message itself is not changed.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	return p.writer.publish(p.tx, topic, messages)
}

// PublishNew is Publish for events that may have been written before: those are left out and returned, in their order, and
// the transaction goes on. When a conflicting event is not committed yet, it waits for the end of that transaction.
func (p *Publisher) PublishNew(topic string, messages ...*message.Message) ([]Conflict, error) {
	return p.writer.publishNew(p.tx, topic, messages)
}

// Close makes later calls fail. The transaction stays the caller's.
func (p *Publisher) Close() error {
	p.writer.close()
	return nil
}
