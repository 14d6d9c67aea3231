package forwarder

import (
	"errors"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

// errNotPublished is the verdict on an event whose middlewares returned without publishing it.
var errNotPublished = errors.New("a middleware returned without publishing the event")

// carrierPublisher is the publisher that Watermill's forwarder component sees: it exchanges a carrier message for the
// batch it stands for, and reports on each event.
type carrierPublisher struct {
	source   *outbox.Subscriber
	out      message.Publisher
	producer Producer // nil if out is none, or events go one by one
	wrap     func(message.HandlerFunc) message.HandlerFunc

	mu      sync.Mutex
	refused map[string]uint64 // topic -> the generation in which an event failed here
}

func newCarrierPublisher(source *outbox.Subscriber, out message.Publisher, middlewares []message.HandlerMiddleware) *carrierPublisher {
	p := &carrierPublisher{source: source, out: out, refused: map[string]uint64{}}
	if producer, ok := out.(Producer); ok && len(middlewares) == 0 {
		p.producer = producer
	}
	p.wrap = func(h message.HandlerFunc) message.HandlerFunc {
		for n := len(middlewares) - 1; n >= 0; n-- {
			h = middlewares[n](h)
		}
		return h
	}
	return p
}

// Publish forwards the batches the messages stand for. Its error says only that a message stands for none: what became of
// the events of a batch is reported to the outbox, which decides on sending them again.
func (p *carrierPublisher) Publish(_ string, carriers ...*message.Message) error {
	for _, carrier := range carriers {
		b, err := p.source.Resolve(carrier)
		if err != nil {
			return err
		}
		p.forward(b)
	}
	return nil
}

// Close does nothing: the publisher behind it is its owner's.
func (p *carrierPublisher) Close() error { return nil }

func (p *carrierPublisher) forward(b *outbox.Batch) {
	defer b.Leave()
	if p.producer == nil {
		if b.Wait(b.Context()) == nil && !p.isRefused(b) {
			p.forwardEach(b)
		}
		return
	}
	// Decoding is most of the work: it is done before the batch's turn comes, side by side with other batches.
	msgs := make([]*message.Message, b.Len())
	for i := range msgs {
		msg, err := b.Message(i)
		if err != nil {
			b.Report(i, event.Receipt{}, err)
			msgs = msgs[:i]
			break
		}
		msgs[i] = msg
	}
	if b.Wait(b.Context()) != nil || p.isRefused(b) {
		return
	}
	var results sync.WaitGroup
	results.Add(len(msgs))
	p.producer.Produce(b.Context(), b.Topic(), b.Generation(), msgs, func(i int, receipt event.Receipt, err error) {
		b.Report(i, receipt, err)
		results.Done()
	})
	if len(msgs) < b.Len() {
		p.refuse(b)
	}
	b.Leave()
	results.Wait()
}

// forwardEach sends one event after the other and stops at the first that fails.
func (p *carrierPublisher) forwardEach(b *outbox.Batch) {
	for i := range b.Len() {
		msg, err := b.Message(i)
		receipt := event.Receipt{Partition: -1, Offset: -1}
		if err == nil {
			receipt, err = p.forwardOne(b, msg)
		}
		b.Report(i, receipt, err)
		if err != nil {
			p.refuse(b)
			return
		}
	}
}

func (p *carrierPublisher) forwardOne(b *outbox.Batch, msg *message.Message) (event.Receipt, error) {
	if err := b.Context().Err(); err != nil {
		return event.Receipt{}, event.ErrNotAttempted
	}
	receipt, published := event.Receipt{Partition: -1, Offset: -1}, errNotPublished
	_, err := p.wrap(func(msg *message.Message) ([]*message.Message, error) {
		receipt, published = p.publish(b, msg)
		return nil, published
	})(msg)
	// Only the broker's word counts. A middleware may turn it into nil, but not into an acknowledgement.
	if published != nil {
		return receipt, published
	}
	return receipt, err
}

func (p *carrierPublisher) publish(b *outbox.Batch, msg *message.Message) (receipt event.Receipt, err error) {
	producer, ok := p.out.(Producer)
	if !ok {
		return event.Receipt{Partition: -1, Offset: -1}, p.out.Publish(b.Topic(), msg)
	}
	done := make(chan struct{})
	// Each try is a generation of its own: a middleware may try again.
	producer.Produce(b.Context(), b.Topic(), b.Try(), []*message.Message{msg}, func(_ int, r event.Receipt, e error) {
		receipt, err = r, e
		close(done)
	})
	<-done
	return receipt, err
}

func (p *carrierPublisher) isRefused(b *outbox.Batch) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.Generation() <= p.refused[b.Topic()]
}

func (p *carrierPublisher) refuse(b *outbox.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[b.Topic()] = max(p.refused[b.Topic()], b.Generation())
}
