package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// ErrClosed says that the subscriber was closed.
var ErrClosed = errors.New("subscriber is closed")

// Subscriber emits the replayed events of one consumer as Watermill messages: same event_id, bytes and headers, with the
// original coordinates in the context (event.DeliveryFromContext). Run them through the consumer's own middleware and handler:
//
//	router.AddConsumerHandler("order-projection.replay", "orders", replays, handler)
//
// An event stays parked until middleware.Dedup or middleware.DeadLetter moves it on in its own transaction; without either it
// is emitted again and again. After a nack it is, too, after a pause that grows from one nack to the next, up to a minute; the
// other events go on meanwhile. Any number of replicas may emit one event; one takes effect.
type Subscriber struct {
	store  *Store
	config SubscriberConfig
	logger watermill.LoggerAdapter

	mutex   sync.Mutex
	closed  bool
	closing chan struct{}
	running sync.WaitGroup
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber makes a Subscriber on db, which stays the caller's to close.
func NewSubscriber(db *sql.DB, config SubscriberConfig, logger watermill.LoggerAdapter) (*Subscriber, error) {
	config.setDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("inbox: subscriber: %w", err)
	}
	store, err := NewStore(db, Config{Schema: config.Schema})
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	logger = logger.With(watermill.LogFields{"consumer": config.Consumer})
	return &Subscriber{store: store, config: config, logger: logger, closing: make(chan struct{})}, nil
}

// Subscribe emits the events that came from topic, until ctx ends or Close is called. Each is emitted after the one before
// was answered. The message in hand then still has the close timeout; its context, like those of the messages before it,
// ends with the subscription and not with ctx.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return nil, fmt.Errorf("inbox: %w", ErrClosed)
	}
	sub := &subscription{
		store: s.store, config: s.config, logger: s.logger, topic: topic, messages: make(chan *message.Message), pauses: pauses{},
	}
	s.running.Go(func() {
		defer close(sub.messages)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := make(chan struct{})
		defer close(stop)
		s.running.Go(func() {
			select {
			case <-s.closing:
				cancel()
			case <-stop:
			}
		})
		sub.run(ctx)
	})
	return sub.messages, nil
}

// Close ends every subscription and waits for that: messages in hand have the close timeout to be answered, then their
// contexts end.
func (s *Subscriber) Close() error {
	s.mutex.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mutex.Unlock()
	s.running.Wait()
	return nil
}
