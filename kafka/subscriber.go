package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/event"
)

// initializeTimeout bounds SubscribeInitialize, which has no context.
const initializeTimeout = 30 * time.Second

// Subscriber receives messages from Kafka. It is safe for concurrent use.
//
// Within a partition, messages of one key are delivered in order, the next when the one before was acked; messages of
// different keys are delivered at once, up to Parallelism. Records without a key have no order among each other, unless
// Parallelism is 1. A nacked message is delivered again, ahead of its key's later ones.
//
// Only the prefix of a partition that was acked without a gap is committed. So after a crash, and when a partition goes
// to another member before a handler is done, messages are delivered again, but none is skipped.
//
// The context of a message has the values of Subscribe's and carries the event.Delivery. It ends when the message was
// acked or nacked, when its partition is lost, and when Close stops waiting for it.
//
// A record the Unmarshaler refuses is delivered as it is: its value as payload, its readable headers as metadata, a
// derived event_id, and the error in event.Delivery.Undecodable. Acking it moves on.
type Subscriber struct {
	config SubscriberConfig
	logger watermill.LoggerAdapter

	mu            sync.Mutex
	closed        bool
	closing       chan struct{}
	subscriptions sync.WaitGroup
}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

// NewSubscriber makes a Subscriber. It does not connect.
func NewSubscriber(config SubscriberConfig, logger watermill.LoggerAdapter) (*Subscriber, error) {
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	config.setDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("kafka: invalid SubscriberConfig: %w", err)
	}
	return &Subscriber{config: config, logger: logger, closing: make(chan struct{})}, nil
}

// Subscribe joins the consumer group for the topic, as a member of its own for each call, and returns the messages. A
// topic that does not exist yet is waited for. When ctx is done, or at Close, the subscription waits up to CloseTimeout
// for the messages in the hands of handlers, commits, leaves the group and closes the channel. Brokers that are away do
// not fail it; they are tried until they are back. Errors: ErrClosed, an invalid topic name.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := event.ValidateTopic(topic); err != nil {
		return nil, fmt.Errorf("kafka: subscribe: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("kafka: subscribe to %q: %w", topic, ErrClosed)
	}
	sub, err := newSubscription(s.config, topic, s.logger)
	if err != nil {
		return nil, fmt.Errorf("kafka: subscribe to %q: %w", topic, err)
	}
	s.subscriptions.Go(func() { sub.run(ctx, s.closing) })
	return sub.output, nil
}

// SubscribeInitialize creates the topic if it does not exist.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	if err := s.initialize(topic); err != nil {
		return fmt.Errorf("kafka: initialize %q: %w", topic, err)
	}
	return nil
}

func (s *Subscriber) initialize(topic string) error {
	if err := event.ValidateTopic(topic); err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return ErrClosed
	}
	ctx, cancel := context.WithTimeout(context.Background(), initializeTimeout)
	defer cancel()
	client, err := kgo.NewClient(s.config.Connection.options(s.logger)...)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(ctx, s.config.InitializePartitions, s.config.InitializeReplication, nil, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	return retry(ctx, func() (bool, error) {
		topics, err := admin.ListTopics(ctx, topic)
		if err != nil {
			return true, err
		}
		return true, topics[topic].Err // unknown until every broker has heard of it
	})
}

// Close stops fetching, waits up to CloseTimeout for the messages in the hands of handlers, commits what was handled,
// leaves the groups and closes the channels. Messages still not acked then are delivered again to whoever subscribes
// next; the log names their number. Closing again waits for the first.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.subscriptions.Wait()
	return nil
}
