package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/millrace-go/millrace/event"
)

// ErrLeaseHeld means that other relays hold live leases on every shard, so that there was nothing to do.
var ErrLeaseHeld = errors.New("outbox: all shards are leased to other relays")

// ErrClosed is returned by a subscriber that was closed.
var ErrClosed = errors.New("outbox: subscriber is closed")

// Subscriber is a relay: it reads committed events of the shards it holds a lease on, emits them, and writes a receipt for
// each that was acknowledged. Any number of relays, in any number of processes, share the shards.
//
// It implements message.Subscriber for Watermill's forwarder component. What it emits is the forwarder's envelope: the
// message to forward and its destination topic.
//
// Guarantee: every committed event is emitted until it is acknowledged, at least once, and events of one topic with the same
// partition key are acknowledged in the order of their positions. Not guaranteed: that an event is emitted once.
//
// All methods are safe for concurrent use.
type Subscriber struct {
	db     *sql.DB
	config SubscriberConfig
	logger watermill.LoggerAdapter
	byRef  bool

	closed  context.Context //nolint:containedctx // ends with Close, not with a call
	close   context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex // guards closed against running

	batches      sync.Map // token -> *Batch
	stats        *counters
	stillFor     time.Duration // after which a loop that has not moved does not move any longer
	databaseDown atomic.Bool
}

// NewSubscriber makes a relay for any forwarder and publisher: it emits one envelope an event and writes the receipt when
// the envelope is acknowledged, without partition and offset. One event of a shard is out at a time. It does nothing before
// Subscribe.
func NewSubscriber(db *sql.DB, config SubscriberConfig, logger watermill.LoggerAdapter) (*Subscriber, error) {
	return newSubscriber(db, config, logger, false)
}

// NewBatchSubscriber makes the relay that package forwarder drives: it emits one small carrier message a batch of events,
// which only Resolve can make sense of.
func NewBatchSubscriber(db *sql.DB, config SubscriberConfig, logger watermill.LoggerAdapter) (*Subscriber, error) {
	return newSubscriber(db, config, logger, true)
}

func newSubscriber(db *sql.DB, config SubscriberConfig, logger watermill.LoggerAdapter, byRef bool) (*Subscriber, error) {
	config.setDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("outbox: invalid SubscriberConfig: %w", err)
	}
	if db == nil {
		return nil, errors.New("outbox: db is nil")
	}
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	if !byRef {
		config.MaxInFlight = 1 // the next events of a shard wait for the acknowledgement of those before
	}
	s := &Subscriber{
		db: db, config: config, byRef: byRef, logger: logger.With(watermill.LogFields{"relay": config.Name}),
		stats: newCounters(), stillFor: 3 * max(config.Lease, config.MaxBackoff, finalBound),
	}
	s.closed, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Subscribe starts a relay. The topic is only a name for the stream of envelopes: events of all topics come out of it. The
// channel closes after ctx ends or Close is called, once everything in flight has been settled.
func (s *Subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	stop, over, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	go func() {
		defer over()
		defer close(out)
		s.relay(stop, s.emitter(ctx, out))
	}()
	return out, nil
}

// start counts a run that Close waits for. stop is closed when ctx ends or Close is called; over ends the run.
func (s *Subscriber) start(ctx context.Context) (stop <-chan struct{}, over func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed.Done():
		return nil, nil, ErrClosed
	default:
	}
	if err := s.checkSequence(ctx); err != nil {
		return nil, nil, err
	}
	stopping, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(s.closed, cancel)
	s.running.Add(1)
	return stopping.Done(), func() {
		unlink()
		cancel()
		s.running.Done()
	}, nil
}

// relay runs one session after another until stop.
func (s *Subscriber) relay(stop <-chan struct{}, emit func(*session, *Batch)) {
	var wake <-chan struct{}
	var own *direct
	if s.config.DirectURL != "" {
		l := newListener(s.config, s.logger)
		l.stats = s.stats
		l.start()
		defer l.Close()
		wake = l.C
		own, _ = newDirect(s.config.DirectURL) // validated
		defer own.close()
	}
	defer s.stats.ended()
	failures := 0
	for {
		s.stats.moved()
		began := time.Now()
		_, err := s.runSession(stop, wake, own, -1, emit)
		select {
		case <-stop:
			return
		default:
		}
		if leadsNowhere(err) {
			reconnect(context.Background(), s.db)
		}
		switch {
		case errors.Is(err, ErrLeaseLost), errors.Is(err, errAnchor):
			s.logger.Info("Starting over", watermill.LogFields{"reason": err.Error()})
		case err != nil && s.databaseDown.CompareAndSwap(false, true):
			s.logger.Error("The database does not answer; trying again until it does", err, nil)
		}
		if time.Since(began) > s.config.Lease {
			failures = 0
		}
		s.stats.moved()
		pause := time.NewTimer(backoff(failures, s.config.MinBackoff, s.config.MaxBackoff))
		failures++
		select {
		case <-pause.C:
		case <-stop:
			pause.Stop()
			return
		}
	}
}

// RunOnce relays what is committed and pending now, at most limit events, trying each once, and returns how many were
// receipted. It is for tests and for cron-like use beside or instead of Subscribe. handle is called with each message that
// Subscribe would have emitted, from several goroutines; its error is the message's Nack.
//
// Errors: ErrLeaseHeld when other relays hold every shard; otherwise what the database or handle reported, joined. sent
// counts also when err is not nil.
func (s *Subscriber) RunOnce(ctx context.Context, limit int, handle func(*message.Message) error) (sent int, err error) {
	if limit <= 0 {
		return 0, fmt.Errorf("outbox: RunOnce: limit %d is not positive", limit)
	}
	stop, over, err := s.start(ctx)
	if err != nil {
		return 0, err
	}
	defer over()
	out := make(chan *message.Message)
	var handling sync.WaitGroup
	var mu sync.Mutex
	var refusals []error
	handling.Go(func() {
		for msg := range out {
			handling.Go(func() {
				if err := handle(msg); err != nil {
					mu.Lock()
					refusals = append(refusals, err)
					mu.Unlock()
					msg.Nack()
					return
				}
				msg.Ack()
			})
		}
	})
	sent, err = s.runSession(stop, nil, nil, limit, s.emitter(ctx, out))
	close(out)
	handling.Wait()
	if err = errors.Join(append(refusals, err)...); err == nil {
		err = ctx.Err()
	}
	return sent, err
}

// emitter returns what turns a batch into messages on out and returns when all of them have ended.
func (s *Subscriber) emitter(ctx context.Context, out chan<- *message.Message) func(*session, *Batch) {
	if s.byRef {
		return func(x *session, b *Batch) { s.emitBatch(x, b, out) }
	}
	return func(x *session, b *Batch) { s.emitEnvelopes(ctx, x, b, out) }
}

// emitBatch sends the batch by reference. Whatever ends the carrier message, only reports count.
func (s *Subscriber) emitBatch(x *session, b *Batch, out chan<- *message.Message) {
	b.token = x.register.relayID + "-" + b.topic + "-" + strconv.FormatUint(b.ticket, 10)
	s.batches.Store(b.token, b)
	defer s.batches.Delete(b.token)
	carrier, err := envelope(b.topic, b.token, nil, map[string]string{BatchTokenKey: b.token})
	if err != nil {
		return
	}
	carrier.Metadata[BatchTokenKey] = b.token
	carrier.SetContext(b.ctx)
	x.carry(out, carrier)
}

// emitEnvelopes sends each event by value: shards side by side, within a shard one after the other. An event that is not
// acknowledged stops its shard, so that nothing passes it.
func (s *Subscriber) emitEnvelopes(ctx context.Context, x *session, b *Batch, out chan<- *message.Message) {
	perShard := map[int16][]int{}
	for n, i := range b.items {
		perShard[i.stored.shard] = append(perShard[i.stored.shard], n)
	}
	var shards sync.WaitGroup
	for _, events := range perShard {
		shards.Go(func() {
			for _, n := range events {
				msg, err := b.Message(n)
				if err == nil {
					msg, err = envelope(b.topic, msg.UUID, msg.Payload, msg.Metadata)
				}
				if err != nil {
					b.Report(n, event.Receipt{}, err)
					return
				}
				// A router that closes ends ctx at once; what is out may still be finished.
				msgCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
				msg.SetContext(msgCtx)
				sent, acked := x.carry(out, msg)
				cancel()
				if !acked {
					if sent {
						b.Report(n, event.Receipt{}, errNacked)
					}
					return
				}
				b.Report(n, event.Receipt{Partition: -1, Offset: -1}, nil)
			}
		})
	}
	shards.Wait()
}

var errNacked = errors.New("the envelope was not acknowledged")

// envelope is the message Watermill's forwarder component expects.
func envelope(topic, id string, payload []byte, metadata map[string]string) (*message.Message, error) {
	body, err := json.Marshal(struct {
		DestinationTopic string            `json:"destination_topic"`
		UUID             string            `json:"uuid"`
		Payload          []byte            `json:"payload"`
		Metadata         map[string]string `json:"metadata"`
	}{topic, id, payload, metadata})
	if err != nil {
		return nil, event.Permanent(fmt.Errorf("outbox: event %s: %w", id, err))
	}
	return message.NewMessage(uuid.NewString(), body), nil
}

// Resolve finds the batch that a carrier message, or the message the forwarder unwrapped from it, stands for. ErrUnknownBatch
// if there is none: the reference was lost on the way, and with it the right to say that anything was sent.
func (s *Subscriber) Resolve(msg *message.Message) (*Batch, error) {
	b, ok := s.batches.Load(msg.Metadata.Get(BatchTokenKey))
	if !ok {
		return nil, ErrUnknownBatch
	}
	return b.(*Batch), nil
}

// CloseBound is the longest that Close may take: what a router that runs the subscriber should wait.
func (s *Subscriber) CloseBound() time.Duration { return s.config.CloseTimeout + 2*finalBound }

// Close stops the relay: nothing more is emitted, what is in flight is settled, the shards are given back. It waits for
// that, at most SubscriberConfig.CloseTimeout and the time of a last statement.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.running.Wait()
	return nil
}
