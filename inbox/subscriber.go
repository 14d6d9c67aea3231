package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

// ErrClosed says that the subscriber was closed.
var ErrClosed = errors.New("subscriber is closed")

// Subscriber emits the replayed events of one consumer as Watermill messages: same event_id, bytes and headers, with the
// original coordinates in the context (event.DeliveryFromContext). Run them through the consumer's own middleware and handler:
//
//	router.AddConsumerHandler("order-projection.replay", "orders", replays, handler)
//
// An event stays parked until middleware.Dedup or middleware.DeadLetter moves it on in its own transaction; without either it
// is emitted again and again, as it is after a nack. Any number of replicas may emit one event; one takes effect.
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
// was acknowledged. The messages' contexts end with the subscription.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return nil, fmt.Errorf("inbox: %w", ErrClosed)
	}
	messages := make(chan *message.Message)
	s.running.Go(func() {
		defer close(messages)
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
		s.poll(ctx, topic, messages)
	})
	return messages, nil
}

// Close ends every subscription and waits for that. It does not wait for handlers; their router does.
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

func (s *Subscriber) poll(ctx context.Context, topic string, messages chan<- *message.Message) {
	ticker := time.NewTicker(s.config.PollInterval)
	defer ticker.Stop()
	failing := false
	for {
		due, err := s.due(ctx, topic)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			s.logger.Error("Replayed events cannot be read, trying on", err, watermill.LogFields{"topic": topic})
		case err == nil && failing:
			s.logger.Info("Replayed events can be read again", watermill.LogFields{"topic": topic})
		}
		failing = err != nil
		for _, msg := range due {
			if !emit(ctx, msg, messages) {
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// emit says whether the message was acknowledged. After a nack the rest of the batch waits too: it is probably not about the event.
func emit(ctx context.Context, msg *message.Message, messages chan<- *message.Message) bool {
	select {
	case messages <- msg:
	case <-ctx.Done():
		return false
	}
	select {
	case <-msg.Acked():
		return true
	case <-msg.Nacked():
	case <-ctx.Done():
	}
	return false
}

func (s *Subscriber) due(ctx context.Context, topic string) ([]*message.Message, error) {
	rows, err := s.store.db.QueryContext(ctx, s.store.query(dueSQL), s.config.Consumer, topic, s.config.BatchSize, s.config.BatchBytes)
	if err != nil {
		return nil, fmt.Errorf("inbox: read due events: %w", err)
	}
	defer rows.Close()
	var due []*message.Message
	for rows.Next() {
		msg, err := s.message(ctx, topic, rows)
		if err != nil {
			return nil, fmt.Errorf("inbox: read due events: %w", err)
		}
		due = append(due, msg)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("inbox: read due events: %w", err)
	}
	return due, nil
}

func (s *Subscriber) message(ctx context.Context, topic string, rows *sql.Rows) (*message.Message, error) {
	var (
		id           string
		partition    sql.NullInt32
		offset       sql.NullInt64
		recordTime   sql.NullTime
		key, headers []byte
		payload      []byte
	)
	if err := rows.Scan(&id, &partition, &offset, &recordTime, &key, &payload, &headers); err != nil {
		return nil, err
	}
	metadata, err := decodeHeaders(headers)
	if err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, replayedKey{}, Replayed{Consumer: s.config.Consumer, EventID: id})
	if partition.Valid && offset.Valid {
		ctx = event.ContextWithDelivery(ctx, event.Delivery{
			Topic: topic, Partition: partition.Int32, Offset: offset.Int64, Key: key, Timestamp: recordTime.Time,
		})
	}
	msg := message.NewMessageWithContext(ctx, id, payload)
	msg.Metadata = metadata
	return msg, nil
}
