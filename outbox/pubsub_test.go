package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/migrations"
	"github.com/millrace-go/millrace/outbox"
)

// Watermill's own conformance suite. The outbox is one stream: here every topic is an outbox of its own, in a schema of its
// own, and all its messages have one key, so that they are in order.
func TestOutboxPassesWatermillsPubSubSuite(t *testing.T) {
	db := testkit.DB(t)
	db.SetMaxOpenConns(40)
	suite := &schemas{db: db}
	tests.TestPubSub(t, tests.Features{
		GuaranteedOrder: true,
		Persistent:      true,
		ForceShort:      true,
	}, func(t *testing.T) (message.Publisher, message.Subscriber) {
		subscriber := &suiteSubscriber{schemas: suite}
		t.Cleanup(func() { _ = subscriber.Close() }) // the suite leaves some open
		return &suitePublisher{schemas: suite}, subscriber
	}, nil)
}

// schemas makes the schema of a topic when it is first used.
type schemas struct {
	db   *sql.DB
	made sync.Map // topic -> func() (string, error)
}

func (s *schemas) of(topic string) (string, error) {
	make, _ := s.made.LoadOrStore(topic, sync.OnceValues(func() (string, error) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(topic))
		schema := fmt.Sprintf("topic_%x", h.Sum64())
		return schema, migrations.Up(context.Background(), s.db, migrations.Config{Schema: schema, Shards: 4})
	}))
	return make.(func() (string, error))()
}

// suitePublisher publishes each call in a transaction of its own.
type suitePublisher struct {
	*schemas
	mu     sync.Mutex
	closed bool
}

func (p *suitePublisher) Publish(topic string, msgs ...*message.Message) error {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return errors.New("publisher is closed")
	}
	schema, err := p.of(topic)
	if err != nil {
		return err
	}
	return outbox.InTx(context.Background(), p.db, func(_ context.Context, tx *sql.Tx) error {
		publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{Schema: schema}, nil)
		if err != nil {
			return err
		}
		for _, msg := range msgs {
			keyed := msg.Copy()
			keyed.Metadata[event.PartitionKeyKey] = "one"
			if err := publisher.Publish("suite", keyed); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *suitePublisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

// suiteSubscriber subscribes a relay and takes the events out of their envelopes.
type suiteSubscriber struct {
	*schemas
	mu     sync.Mutex
	relays []*outbox.Subscriber
	closed bool

	unwrapping sync.WaitGroup
}

func (s *suiteSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	schema, err := s.of(topic)
	if err != nil {
		return nil, err
	}
	relay, err := outbox.NewSubscriber(s.db, outbox.SubscriberConfig{
		Schema: schema, Lease: 3 * time.Second, PollInterval: 20 * time.Millisecond, MinBackoff: 5 * time.Millisecond, MaxBackoff: 20 * time.Millisecond,
		CloseTimeout: time.Second,
	}, nil)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, outbox.ErrClosed
	}
	envelopes, err := relay.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	s.relays = append(s.relays, relay)
	events := make(chan *message.Message)
	s.unwrapping.Go(func() {
		defer close(events)
		for outer := range envelopes {
			s.unwrap(outer, events)
		}
	})
	return events, nil
}

func (s *suiteSubscriber) unwrap(outer *message.Message, events chan<- *message.Message) {
	var inner struct {
		UUID     string
		Payload  []byte
		Metadata map[string]string
	}
	if err := json.Unmarshal(outer.Payload, &inner); err != nil {
		outer.Nack()
		return
	}
	msg := message.NewMessage(inner.UUID, inner.Payload)
	msg.Metadata = inner.Metadata
	msg.SetContext(outer.Context())
	select {
	case events <- msg:
	case <-outer.Context().Done():
		outer.Nack()
		return
	}
	select {
	case <-msg.Acked():
		outer.Ack()
	case <-msg.Nacked():
		outer.Nack()
	case <-outer.Context().Done():
		outer.Nack()
	}
}

func (s *suiteSubscriber) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var closing sync.WaitGroup
	for _, relay := range s.relays {
		closing.Go(func() { _ = relay.Close() })
	}
	closing.Wait()
	s.unwrapping.Wait()
	return nil
}
