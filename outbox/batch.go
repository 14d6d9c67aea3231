package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

// BatchTokenKey is the metadata key by which a carrier message names its batch.
const BatchTokenKey = "millrace_batch"

// ErrUnknownBatch means that a carrier message names no batch of this subscriber, or one that has ended: nothing may be
// concluded about any event.
var ErrUnknownBatch = errors.New("outbox: carrier message without a live batch")

// errNoVerdict stands for an event of a carrier that ended without anybody reporting on it.
var errNoVerdict = fmt.Errorf("the carrier message ended without a verdict on the event: %w", event.ErrNotAttempted)

// Batch is a run of events for one topic that travels through Watermill's forwarder as one small carrier message, by
// reference. What happened to each event is what Report is told; the carrier's Ack or Nack says nothing about them.
type Batch struct {
	topic      string
	generation uint64
	ticket     uint64
	token      string
	turns      *turnstile
	ctx        context.Context //nolint:containedctx // the lease: it ends the right to send, not a call
	items      []*item
	suspect    bool // it has to be put on record before it is sent

	mu       sync.Mutex
	ended    bool
	verdicts []verdict
}

type verdict struct {
	reported bool
	receipt  event.Receipt
	err      error
	at       time.Time
}

// Topic is where all events of the batch go.
func (b *Batch) Topic() string { return b.topic }

// Len is the number of events.
func (b *Batch) Len() int { return len(b.items) }

// Generation grows whenever events of this topic have to be sent again. A publisher that refused an event refuses all later
// ones of the same generation, so that none overtakes it.
func (b *Batch) Generation() uint64 { return b.generation }

// Try returns a generation of its own, for a publisher that sends the events of the batch one by one.
func (b *Batch) Try() uint64 { return generations.Add(1) }

// Context ends when the relay's lease does: nothing may be handed to the broker after that.
func (b *Batch) Context() context.Context { return b.ctx }

// Message builds the i-th event as the message its publisher wrote.
func (b *Batch) Message(i int) (*message.Message, error) {
	msg, err := b.items[i].outgoing()
	if err != nil {
		return nil, event.Permanent(fmt.Errorf("outbox: event %s %w: %w", b.items[i].eventID, errDecode, err))
	}
	msg.SetContext(b.ctx)
	return msg, nil
}

// Wait blocks until every earlier batch has called Leave or ended. The router runs each message in its own goroutine;
// this brings the batches back into the order they were read in.
func (b *Batch) Wait(ctx context.Context) error { return b.turns.wait(ctx, b.ticket) }

// Leave lets the next batch go on.
func (b *Batch) Leave() { b.turns.leave(b.ticket) }

// Report says what the broker said of the i-th event: acknowledged at the receipt's partition and offset, or err. A
// partition of -1 means that the publisher does not tell. Only the first report on an event counts. Safe for concurrent use.
func (b *Batch) Report(i int, receipt event.Receipt, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended && !b.verdicts[i].reported {
		b.verdicts[i] = verdict{reported: true, receipt: receipt, err: err, at: time.Now()}
	}
}

// reported says whether the verdict on the first event is in.
func (b *Batch) reported() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.verdicts[0].reported
}

// end closes the batch for reports; events without one count as not attempted.
func (b *Batch) end() []verdict {
	b.Leave()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for i := range b.verdicts {
		if !b.verdicts[i].reported {
			b.verdicts[i].err = errNoVerdict
		}
	}
	return b.verdicts
}

// turnstile passes tickets in ascending order.
type turnstile struct {
	mu     sync.Mutex
	next   uint64
	left   map[uint64]bool
	change chan struct{}
}

func newTurnstile() *turnstile {
	return &turnstile{left: map[uint64]bool{}, change: make(chan struct{})}
}

func (t *turnstile) wait(ctx context.Context, ticket uint64) error {
	for {
		t.mu.Lock()
		next, change := t.next, t.change
		t.mu.Unlock()
		if ticket <= next {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *turnstile) leave(ticket uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ticket < t.next {
		return
	}
	t.left[ticket] = true
	for t.left[t.next] {
		delete(t.left, t.next)
		t.next++
	}
	close(t.change)
	t.change = make(chan struct{})
}
