package pipeline

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/middleware"
	"github.com/millrace-go/millrace/outbox"
)

// closeMargin is what the router waits beyond what its parts need to close by themselves.
const closeMargin = 10 * time.Second

// ErrClosed is returned by Run after Close.
var ErrClosed = errors.New("pipeline is closed")

// Pipeline is a relay and any number of consumers on one router.
type Pipeline struct {
	db     *sql.DB
	config Config
	logger watermill.LoggerAdapter

	router    *message.Router
	producer  *kafka.Publisher // nil with ConsumeOnly
	forwarder *forwarder.Forwarder
	outbox    *outbox.ContextPublisher

	mu               sync.Mutex
	started, stopped bool
	sources          []io.Closer   // the handlers' subscribers
	stop             chan struct{} // closed when closing begins
	ended            chan struct{} // closed when the router has ended or could not start
	closeOnce        sync.Once
	closeErr         error
}

// New makes a pipeline. Nothing runs before Run; the brokers are not asked before that either.
func New(db *sql.DB, config Config, logger watermill.LoggerAdapter) (*Pipeline, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("pipeline: invalid Config: %w", err)
	}
	config.setDefaults()
	if db == nil {
		return nil, errors.New("pipeline: db is nil")
	}
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	p := &Pipeline{db: db, config: config, logger: logger, stop: make(chan struct{}), ended: make(chan struct{})}
	if err := p.compose(); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	return p, nil
}

func (p *Pipeline) compose() (err error) {
	p.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: p.config.CloseTimeout + closeMargin}, p.logger)
	if err != nil {
		return err
	}
	// What fits on the way in fits on the way to the dead letters.
	p.outbox, err = outbox.NewContextPublisher(
		outbox.PublisherConfig{Schema: p.config.Schema, MaxRecordBytes: p.config.Publisher.MaxMessageBytes}, p.logger)
	if err != nil {
		return err
	}
	if p.config.ConsumeOnly {
		return nil
	}
	p.producer, err = kafka.NewPublisher(p.config.Publisher, p.logger)
	if err != nil {
		return err
	}
	p.config.Forwarder.Router = p.router
	p.forwarder, err = forwarder.NewForwarder(p.db, p.producer, p.config.Forwarder, p.logger)
	if err != nil {
		return errors.Join(err, p.producer.Close())
	}
	return nil
}

// Handle has handler take effect once for each event of the topic, in the transaction it finds in the message's context.
// consumer names the effect: it is the consumer group and the inbox's key, so keep it for ever. Middleware given here goes
// around the handler in each attempt, inside Dedup and so in the transaction. Call it before Run.
func (p *Pipeline) Handle(consumer, topic string, handler message.NoPublishHandlerFunc, inner ...message.HandlerMiddleware) error {
	return p.add(consumer, topic, "", func(msg *message.Message) ([]*message.Message, error) { return nil, handler(msg) }, inner)
}

// HandleWithEvents is Handle for a handler that returns events: they go to publishTopic through the outbox, in the
// transaction of its effect.
func (p *Pipeline) HandleWithEvents(consumer, topic, publishTopic string, handler message.HandlerFunc, inner ...message.HandlerMiddleware) error {
	if err := event.ValidateTopic(publishTopic); err != nil {
		return fmt.Errorf("pipeline: consumer %s: publish topic: %w", consumer, err)
	}
	return p.add(consumer, topic, publishTopic, handler, inner)
}

func (p *Pipeline) add(consumer, topic, publishTopic string, handler message.HandlerFunc, inner []message.HandlerMiddleware) error {
	if err := errors.Join(inbox.ValidateConsumer(consumer), event.ValidateTopic(topic)); err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped:
		return fmt.Errorf("pipeline: %w", ErrClosed)
	case p.started:
		return fmt.Errorf("pipeline: consumer %q comes after Run", consumer)
	}
	replay := consumer + ".replay"
	for _, name := range []string{consumer, replay} {
		if _, taken := p.router.Handlers()[name]; taken {
			return fmt.Errorf("pipeline: consumer %q: a handler %q is there already, and inbox rows would be shared", consumer, name)
		}
	}
	subscriberConfig := p.config.Subscriber
	subscriberConfig.ConsumerGroup = consumer
	subscriber, err := kafka.NewSubscriber(subscriberConfig, p.logger)
	if err != nil {
		return fmt.Errorf("pipeline: consumer %s: %w", consumer, err)
	}
	replays, err := inbox.NewSubscriber(p.db, inbox.SubscriberConfig{
		Schema: p.config.Schema, Consumer: consumer, PollInterval: p.config.ReplayInterval, CloseTimeout: p.config.CloseTimeout,
	}, p.logger)
	if err != nil {
		return fmt.Errorf("pipeline: consumer %s: %w", consumer, err)
	}
	p.sources = append(p.sources, subscriber, replays)
	for name, source := range map[string]message.Subscriber{consumer: subscriber, replay: replays} {
		p.router.AddHandler(name, topic, source, publishTopic, keepOpen{p.outbox}, handler).AddMiddleware(p.chain(consumer, publishTopic, inner)...)
	}
	return nil
}

// chain is what every delivery goes through. See package middleware for why in this order.
func (p *Pipeline) chain(consumer, publishTopic string, inner []message.HandlerMiddleware) []message.HandlerMiddleware {
	chain := []message.HandlerMiddleware{
		middleware.Drain,
		middleware.DeadLetter{
			DB: p.db, Schema: p.config.Schema, Consumer: consumer, Publisher: p.outbox,
			Topic: p.config.DeadLetterTopic, MaxBytes: p.config.Publisher.MaxMessageBytes, Logger: p.logger,
		}.Middleware,
		p.config.Retry.Middleware,
		middleware.Timeout(p.config.HandlerTimeout),
		middleware.Recoverer,
		middleware.Dedup{
			DB: p.db, Schema: p.config.Schema, Consumer: consumer, Outbox: p.outbox, OutboxTopic: publishTopic,
			HandlerTimeout: p.config.HandlerTimeout,
			OnApplied:      hook(p.config.OnApplied, consumer), OnDuplicate: hook(p.config.OnDuplicate, consumer),
		}.Middleware,
	}
	return append(chain, inner...)
}

// hook is one of Config for one consumer.
func hook(hook func(string, *message.Message), consumer string) func(*message.Message) {
	if hook == nil {
		return nil
	}
	return func(msg *message.Message) { hook(consumer, msg) }
}

// Outbox returns the long-lived publisher that writes events in the transaction of their message's context.
func (p *Pipeline) Outbox() *outbox.ContextPublisher { return p.outbox }

// Router returns the router, for middleware and plugins that concern every handler, the relay's included.
func (p *Pipeline) Router() *message.Router { return p.router }

// RelayStats returns the relay's counts so far; all zero with ConsumeOnly.
func (p *Pipeline) RelayStats() outbox.Stats {
	if p.forwarder == nil {
		return outbox.Stats{}
	}
	return p.forwarder.Stats()
}

// Run works until ctx ends or Close is called, and returns once everything has stopped. It is called once.
func (p *Pipeline) Run(ctx context.Context) error {
	p.mu.Lock()
	if p.stopped || p.started {
		p.mu.Unlock()
		return fmt.Errorf("pipeline: %w", ErrClosed)
	}
	p.started = true
	p.mu.Unlock()

	// The router is told to close, instead of being given ctx: a context that ends would take everything down at once.
	var watching sync.WaitGroup
	watching.Go(func() {
		for _, happened := range []<-chan struct{}{ctx.Done(), p.router.Running()} {
			select {
			case <-happened:
			case <-p.stop:
				return
			case <-p.ended:
				return
			}
		}
		p.close()
	})
	err := p.router.Run(context.WithoutCancel(ctx))
	close(p.ended)
	watching.Wait()
	p.close()
	if err = errors.Join(err, p.closeErr); err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	return nil
}

// Running is closed once the pipeline works.
func (p *Pipeline) Running() chan struct{} { return p.router.Running() }

// Close stops fetching and reading, waits for handlers and for events in flight, commits offsets, gives the shards back, and
// then closes the publisher. Nothing counts as failed. It is idempotent and returns when all of that is done.
func (p *Pipeline) Close() error {
	p.close()
	if p.closeErr != nil {
		return fmt.Errorf("pipeline: %w", p.closeErr)
	}
	return nil
}

func (p *Pipeline) close() {
	p.closeOnce.Do(func() {
		close(p.stop)
		p.mu.Lock()
		p.stopped = true
		started := p.started
		p.mu.Unlock()
		var errs []error
		if started {
			select {
			case <-p.router.Running():
				errs = append(errs, p.router.Close())
			case <-p.ended: // it could not start: a router that does not run would wait for its handlers
			}
		}
		for _, source := range p.sources {
			errs = append(errs, source.Close())
		}
		// After the last receipt: Watermill's router does not close what the forwarder publishes to.
		if p.forwarder != nil {
			errs = append(errs, p.forwarder.Close(), p.producer.Close())
		}
		p.closeErr = errors.Join(append(errs, p.outbox.Close())...)
	})
}

// keepOpen is a publisher that one handler's end does not close for the others.
type keepOpen struct{ message.Publisher }

func (keepOpen) Close() error { return nil }
