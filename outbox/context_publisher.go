package outbox

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

var (
	// ErrNoTx means that there is no transaction to write events in. They are never written outside one.
	ErrNoTx = errors.New("no transaction")

	errManyTx = errors.New("the messages of one call carry different transactions")
)

// ContextPublisher writes events to the outbox in the transaction that each message's context carries: event.InTx puts one
// there, and so does a context from InTx or middleware.Dedup that is made the message's. It is made once for the life of the
// process and serves as the publisher of a cqrs.EventBus or a router's handler.
//
// It has no database: without a transaction it returns ErrNoTx. Safe for concurrent use by different transactions.
type ContextPublisher struct {
	writer *writer
}

var _ message.Publisher = (*ContextPublisher)(nil)

// NewContextPublisher makes a publisher. A nil logger is silent.
func NewContextPublisher(config PublisherConfig, logger watermill.LoggerAdapter) (*ContextPublisher, error) {
	w, err := newWriter(config, logger)
	if err != nil {
		return nil, err
	}
	return &ContextPublisher{w}, nil
}

// Publish is Publisher.Publish in the transaction of the messages, which must be the same for all of them.
func (p *ContextPublisher) Publish(topic string, messages ...*message.Message) error {
	tx, err := txOf(messages)
	if err != nil {
		return err
	}
	return p.writer.publish(tx, topic, messages)
}

// PublishNew is Publisher.PublishNew in the transaction of the messages, which must be the same for all of them.
func (p *ContextPublisher) PublishNew(topic string, messages ...*message.Message) ([]Conflict, error) {
	tx, err := txOf(messages)
	if err != nil {
		return nil, err
	}
	return p.writer.publishNew(tx, topic, messages)
}

// Close makes later calls fail. It ends no transaction and waits for none.
func (p *ContextPublisher) Close() error {
	p.writer.close()
	return nil
}

func txOf(messages []*message.Message) (tx *sql.Tx, err error) {
	for i, msg := range messages {
		if msg == nil {
			continue // the check of the messages says so
		}
		own, ok := event.TxFromContext(msg.Context())
		switch {
		case !ok:
			return nil, fmt.Errorf("outbox: publish: message %d: %w in its context", i, ErrNoTx)
		case tx != nil && own != tx:
			return nil, fmt.Errorf("outbox: publish: message %d: %w", i, errManyTx)
		}
		tx = own
	}
	return tx, nil
}
