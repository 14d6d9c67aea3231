package forwarder

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/outbox"
)

// Config configures a Forwarder. The zero value is ready for use.
type Config struct {
	// Outbox configures the reading side: leases, batches, limits.
	Outbox outbox.SubscriberConfig

	// Topic names the stream of carrier messages on the router, in its logs and metrics. It is not a Kafka topic. Default
	// "outbox".
	Topic string

	// Middlewares wrap the publishing of each single event and see it as its publisher wrote it. With any, events are sent
	// one by one, each waiting for the broker: expect a few thousand a second instead of tens of thousands. A middleware
	// that returns nil without calling its handler leaves the event unsent; it comes back.
	Middlewares []message.HandlerMiddleware

	// Router runs the forwarder on the user's own router, which then starts and stops it; one forwarder a router, since
	// Watermill fixes the handler's name. Nil = one of its own.
	Router *message.Router
}

func (c *Config) setDefaults() {
	if c.Topic == "" {
		c.Topic = "outbox"
	}
}

// Validate names every bad field.
func (c Config) Validate() error {
	c.setDefaults()
	var errs []error
	if err := c.Outbox.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Outbox: %w", err))
	}
	for n, m := range c.Middlewares {
		if m == nil {
			errs = append(errs, fmt.Errorf("Middlewares[%d] is nil", n))
		}
	}
	return errors.Join(errs...)
}

// Forwarder relays the outbox to a publisher.
type Forwarder struct {
	component  *forwarder.Forwarder
	subscriber *outbox.Subscriber
	publisher  *carrierPublisher
	ownRouter  bool
	closed     atomic.Bool
}

// NewForwarder makes a forwarder. Any message.Publisher will do and is given one event at a time; one that is also a
// Producer, as kafka.Publisher, is given whole batches and tells the partition and offset of each event. The publisher is
// not closed by the forwarder: close it after the forwarder has stopped.
func NewForwarder(db *sql.DB, publisher message.Publisher, config Config, logger watermill.LoggerAdapter) (*Forwarder, error) {
	config.setDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("forwarder: invalid Config: %w", err)
	}
	if publisher == nil {
		return nil, errors.New("forwarder: publisher is nil")
	}
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	subscriber, err := outbox.NewBatchSubscriber(db, config.Outbox, logger)
	if err != nil {
		return nil, fmt.Errorf("forwarder: %w", err)
	}
	carriers := newCarrierPublisher(subscriber, publisher, config.Middlewares)
	component, err := forwarder.NewForwarder(subscriber, carriers, logger, forwarder.Config{
		ForwarderTopic: config.Topic, Router: config.Router, CloseTimeout: subscriber.CloseBound(),
	})
	if err != nil {
		return nil, fmt.Errorf("forwarder: %w", err)
	}
	return &Forwarder{component: component, subscriber: subscriber, publisher: carriers, ownRouter: config.Router == nil}, nil
}

// Run relays until ctx ends or Close is called. On the user's own router it is that router's Run which counts, and this
// must not be called.
func (f *Forwarder) Run(ctx context.Context) error {
	err := f.component.Run(ctx)
	if err == nil || f.closed.Load() && errors.Is(err, outbox.ErrClosed) { // closed before it came to run
		return nil
	}
	return fmt.Errorf("forwarder: %w", err)
}

// Running is closed once the forwarder relays.
func (f *Forwarder) Running() chan struct{} { return f.component.Running() }

// RunOnce relays what is committed and pending now, at most limit events, trying each once, and returns how many the broker
// acknowledged and are receipted. See outbox.Subscriber.RunOnce for its errors. It may be used instead of Run or beside it.
func (f *Forwarder) RunOnce(ctx context.Context, limit int) (sent int, err error) {
	return f.subscriber.RunOnce(ctx, limit, func(carrier *message.Message) error {
		return f.publisher.Publish("", carrier)
	})
}

// Stats returns the relay's counts so far.
func (f *Forwarder) Stats() outbox.Stats { return f.subscriber.Stats() }

// Close stops relaying, settles what is in flight and gives the shards back. On the user's own router, closing the router
// does the same.
func (f *Forwarder) Close() error {
	f.closed.Store(true)
	var err error
	if f.ownRouter {
		select {
		case <-f.Running():
			err = f.component.Close()
		default: // a router that never came to run would wait for its handlers
		}
	}
	if err = errors.Join(err, f.subscriber.Close()); err != nil {
		return fmt.Errorf("forwarder: %w", err)
	}
	return nil
}
