package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/event"
)

// Publisher sends messages to Kafka and reports what every in-sync replica has acknowledged. It is safe for concurrent
// use.
//
// The messages of one partition go through one lane: one chunk of them, which is one record batch, is outstanding, and
// the next is sent when it was accepted. So a refused message never lets its successors pass.
type Publisher struct {
	config     PublisherConfig
	logger     watermill.LoggerAdapter
	client     *kgo.Client
	compressor kgo.Compressor
	calls      atomic.Uint64

	// start runs a goroutine that Close waits for; cancel ends its context.
	start  func(run func(context.Context))
	cancel context.CancelFunc
	// resolving and sending are those goroutines: the ones that may still hand messages to lanes, and the lanes.
	resolving, sending sync.WaitGroup

	mu      sync.RWMutex
	closed  bool
	closing sync.Once

	destinationsMu sync.Mutex
	destinations   map[string]*destination
	couriersMu     sync.Mutex
	couriers       map[int32]*courier // by broker id
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher makes a Publisher. It does not connect: brokers that are away show as errors of Publish and Produce.
func NewPublisher(config PublisherConfig, logger watermill.LoggerAdapter) (*Publisher, error) {
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	config.setDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("kafka: invalid PublisherConfig: %w", err)
	}
	compressor, err := kgo.DefaultCompressor(codecs[config.Compression])
	if err != nil {
		return nil, fmt.Errorf("kafka: compression: %w", err)
	}
	client, err := kgo.NewClient(append(config.Connection.options(logger), kgo.RequiredAcks(kgo.AllISRAcks()))...)
	if err != nil {
		return nil, fmt.Errorf("kafka: make client: %w", err)
	}
	p := &Publisher{
		config:       config,
		logger:       logger,
		client:       client,
		compressor:   compressor,
		destinations: map[string]*destination{},
		couriers:     map[int32]*courier{},
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.start = func(run func(context.Context)) { go run(ctx) }
	return p, nil
}

// Publish sends the messages, in order per partition, and returns once each was acknowledged or has failed. A message's
// context bounds the wait for it; when it ends first, the outcome is unknown.
//
// The error joins the failures and names their event_ids: ErrUnknownTopic, ErrTopicDenied, ErrTooLarge (permanent),
// event.ErrNotAttempted for what was not sent because a message before it failed, ErrClosed. No messages: no-op.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	if len(messages) == 0 {
		return nil
	}
	results := make([]chan error, len(messages))
	for i := range results {
		results[i] = make(chan error, 1)
	}
	items := p.items(topic, line{call: p.calls.Add(1)}, messages, (*message.Message).Context,
		func(i int, _ event.Receipt, err error) { results[i] <- err })
	p.submit(topic, items)

	var errs []error
	for i, msg := range messages {
		if err := wait(msg.Context(), results[i]); err != nil {
			errs = append(errs, fmt.Errorf("event %q: %w", items[i].eventID, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("kafka: publish to %q: %w", topic, err)
	}
	return nil
}

func wait(ctx context.Context, result <-chan error) error {
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result:
		return err
	default:
		return fmt.Errorf("outcome unknown: %w", ctx.Err())
	}
}

// Produce queues the messages and returns; it never waits for a broker. Callers serialise their calls for a topic: the
// order of calls is the order on each partition. Nothing bounds the queues but what callers hand over.
//
// onResult is called once for each message: in order per partition, for different partitions at the same time, and
// never from within Produce unless the publisher is closed. It must return quickly, because its lane waits.
//
// When a message fails, every message of its partition that is queued or comes later with the same or a lower
// generation is refused unsent with event.ErrNotAttempted; the first with a higher generation clears that. So the caller
// raises the generation when it sends again from the first unsettled message on. A message whose ctx is done before it
// is sent is event.ErrNotAttempted too, with the cause.
//
// A permanent error (event.IsPermanent) is about this message alone: ErrTooLarge, an invalid topic name, a record the
// broker refused by itself. Any other error is about the way, and the outcome may be unknown. While a topic's
// partitions are not known, its failures are those of the whole topic: ErrUnknownTopic, ErrTopicDenied, an error of
// PublisherConfig.CheckPartitions, or that no broker answered.
func (p *Publisher) Produce(
	ctx context.Context,
	topic string,
	generation uint64,
	messages []*message.Message,
	onResult func(i int, receipt event.Receipt, err error),
) {
	if len(messages) == 0 {
		return
	}
	p.submit(topic, p.items(topic, line{generation: generation}, messages,
		func(*message.Message) context.Context { return ctx }, onResult))
}

// Partitions returns the partition count messages of the topic are spread over, asking the cluster when it is not known
// yet. Errors: ErrUnknownTopic, ErrTopicDenied, ErrClosed, the error of PublisherConfig.CheckPartitions.
func (p *Publisher) Partitions(ctx context.Context, topic string) (int32, error) {
	p.mu.RLock()
	closed := p.closed
	p.mu.RUnlock()
	if closed {
		return 0, fmt.Errorf("kafka: partitions of %q: %w", topic, ErrClosed)
	}
	n, err := p.destination(topic).partitions(ctx)
	if err != nil {
		return 0, fmt.Errorf("kafka: partitions of %q: %w", topic, err)
	}
	return n, nil
}

// Close refuses new messages, waits up to CloseTimeout for what was accepted, and gives up on the rest: unsent messages
// are event.ErrNotAttempted. Every result has been reported when it returns. Closing again waits for the first.
func (p *Publisher) Close() error {
	p.closing.Do(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()

		late := time.AfterFunc(p.config.CloseTimeout, p.cancel)
		defer late.Stop()
		p.resolving.Wait()
		p.destinationsMu.Lock()
		for _, d := range p.destinations {
			d.closeLanes()
		}
		p.destinationsMu.Unlock()
		p.sending.Wait()
		p.cancel()
		p.client.Close()
	})
	return nil
}

// items marshals the messages. One that fails becomes an item with an error, which keeps its place.
func (p *Publisher) items(
	topic string,
	l line,
	messages []*message.Message,
	contextOf func(*message.Message) context.Context,
	onResult func(int, event.Receipt, error),
) []item {
	now := time.Now()
	items := make([]item, len(messages))
	for i, msg := range messages {
		it := item{index: i, line: l, eventID: msg.Metadata[event.IDKey], onResult: onResult}
		if it.eventID == "" {
			it.eventID = msg.UUID
		}
		it.record, it.err = p.record(topic, msg)
		if it.record.Timestamp.IsZero() {
			it.record.Timestamp = now
		}
		it.record.Context = contextOf(msg)
		it.size = recordSize(it.record)
		if limit := p.config.MaxMessageBytes; it.err == nil && batchOverhead+it.size > limit {
			it.err = event.Permanent(event.Classify(fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, batchOverhead+it.size, limit), "too_large"))
		}
		items[i] = it
	}
	return items
}

// record never returns nil: a message that can not be marshaled still has the key that puts it in its lane.
func (p *Publisher) record(topic string, msg *message.Message) (*kgo.Record, error) {
	record, err := marshal(p.config.Marshaler, topic, msg)
	if err == nil {
		record.Topic = topic
		return record, nil
	}
	unmarshaled := &kgo.Record{Topic: topic}
	if key, ok := event.Key(msg); ok {
		unmarshaled.Key = []byte(key)
	}
	return unmarshaled, event.Permanent(event.Classify(fmt.Errorf("marshal: %w", err), "invalid_record"))
}

func marshal(marshaler wkafka.Marshaler, topic string, msg *message.Message) (*kgo.Record, error) {
	if own, ok := marshaler.(Marshaler); ok {
		return own.record(topic, msg)
	}
	marshaled, err := marshaler.Marshal(topic, msg)
	if err != nil {
		return nil, err
	}
	return producerRecord(marshaled)
}

// submit queues the items. Everything that waits happens later, in goroutines that Close waits for.
func (p *Publisher) submit(topic string, items []item) {
	p.mu.RLock()
	if !p.closed {
		defer p.mu.RUnlock()
		p.destination(topic).submit(items)
		return
	}
	p.mu.RUnlock()
	for _, it := range items {
		it.refuse(fmt.Errorf("%w: %w", event.ErrNotAttempted, ErrClosed))
	}
}

func (p *Publisher) destination(topic string) *destination {
	p.destinationsMu.Lock()
	defer p.destinationsMu.Unlock()
	d, ok := p.destinations[topic]
	if !ok {
		d = &destination{publisher: p, topic: topic, loading: make(chan struct{}, 1), lanes: map[int32]*lane{}}
		p.destinations[topic] = d
	}
	return d
}

// courier returns the one that serves the broker.
func (p *Publisher) courier(broker int32) *courier {
	p.couriersMu.Lock()
	defer p.couriersMu.Unlock()
	c, ok := p.couriers[broker]
	if !ok {
		c = &courier{publisher: p, broker: broker}
		p.couriers[broker] = c
	}
	return c
}
