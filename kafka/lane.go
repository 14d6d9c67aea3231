package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace-go/millrace/event"
)

// errBehind refuses what would pass a failed message.
var errBehind = fmt.Errorf("%w: a message before it on its partition failed", event.ErrNotAttempted)

// lane sends the messages of one partition in order, one chunk at a time. Each chunk is one record batch, which the
// broker takes or refuses as a whole, so no part of a chunk can pass another.
//
// That is why batches are made here and not by kgo.Client.Produce: it takes records one by one and may send the first of
// a chunk while the rest is still being added. When that fails, the rest starts a new batch, and passes.
type lane struct {
	destination *destination
	partition   int32
	// Owned by run.
	hold       hold
	producer   producer
	chunkBytes int

	mu     sync.Mutex
	filled *sync.Cond
	queue  []item
	closed bool
}

func newLane(d *destination, partition int32) *lane {
	l := &lane{destination: d, partition: partition, chunkBytes: d.publisher.config.MaxMessageBytes}
	l.filled = sync.NewCond(&l.mu)
	return l
}

func (l *lane) push(items []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, items...)
	l.filled.Signal()
}

// close ends run once the queue is empty.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.filled.Signal()
}

func (l *lane) run(ctx context.Context) {
	defer l.destination.publisher.sending.Done()
	for {
		l.mu.Lock()
		for len(l.queue) == 0 && !l.closed {
			l.filled.Wait()
		}
		items := l.queue
		l.queue = nil
		l.mu.Unlock()
		if len(items) == 0 {
			return
		}
		l.send(ctx, items)
	}
}

// send reports a result for every item, in order.
func (l *lane) send(ctx context.Context, items []item) {
	for len(items) > 0 {
		first := items[0]
		if err := l.refusal(ctx, first); err != nil {
			l.hold.fail(first.line)
			first.refuse(err)
			items = items[1:]
			continue
		}
		n := l.chunk(ctx, items)
		l.sendChunk(ctx, items[:n])
		items = items[n:]
	}
}

// refusal says why an item can not be sent now.
func (l *lane) refusal(ctx context.Context, it item) error {
	switch {
	case it.record.Context.Err() != nil:
		return fmt.Errorf("%w: %w", event.ErrNotAttempted, it.record.Context.Err())
	case l.hold.refuses(it.line):
		return errBehind
	case it.err != nil:
		return it.err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", event.ErrNotAttempted, ErrClosed)
	}
	return nil
}

// chunk counts the items that go out together. The first always does.
func (l *lane) chunk(ctx context.Context, items []item) int {
	bytes := batchOverhead + items[0].size
	for n, it := range items[1:] {
		bytes += it.size + laterOverhead
		if n+1 >= l.destination.publisher.config.ChunkSize || bytes > l.chunkBytes || l.refusal(ctx, it) != nil {
			return n + 1
		}
	}
	return len(items)
}

func (l *lane) sendChunk(ctx context.Context, chunk []item) {
	base, err := l.append(ctx, chunk)
	switch {
	case err == nil:
		for i, it := range chunk {
			it.onResult(it.index, event.Receipt{Partition: l.partition, Offset: base + int64(i)}, nil)
		}
	case isRecordError(err) && len(chunk) > 1:
		// The verdict is on the batch. Halving finds the record it is about, and in order. Where the topic takes less than
		// MaxMessageBytes, later chunks are smaller from the start.
		if isTooLarge(err) {
			l.chunkBytes = max(l.chunkBytes/2, l.destination.publisher.config.MaxMessageBytes/256)
		}
		half := len(chunk) / 2
		l.send(ctx, chunk[:half])
		l.send(ctx, chunk[half:])
	default:
		for _, it := range chunk {
			l.hold.fail(it.line)
			it.refuse(permanentIfRecord(err))
		}
	}
}

// append writes the chunk as one batch and returns the offset of its first record. It tries until the broker accepts or
// refuses, or DeliveryTimeout has passed. The same batch sent twice is written once, because it keeps its sequence.
func (l *lane) append(ctx context.Context, chunk []item) (int64, error) {
	p := l.destination.publisher
	ctx, cancel := context.WithTimeout(ctx, p.config.DeliveryTimeout)
	defer cancel()
	var base int64
	unsure := false // whether the broker may have the batch, or may still get it
	err := retry(ctx, func() (bool, error) {
		broker, id, err := l.destination.leader(ctx, l.partition)
		if err != nil {
			return false, err
		}
		if err := l.producer.identify(ctx, p.client); err != nil {
			return false, err
		}
		parcel := &parcel{
			topic:     l.destination.topic,
			id:        id,
			partition: l.partition,
			batch:     encodeBatch(chunk, l.producer, p.compressor),
			answer:    make(chan answer, 1),
		}
		var written bool
		base, written, err = p.courier(broker).deliver(ctx, parcel)
		unsure = unsure || written
		if err == nil || isFinal(err) {
			return false, err
		}
		if isOutOfSequence(err) {
			l.producer = producer{}
			return true, err
		}
		if loadErr := l.destination.load(ctx); loadErr != nil && ctx.Err() == nil {
			return false, fmt.Errorf("%w (after %w)", loadErr, err)
		}
		return true, err
	})
	if err == nil {
		l.producer.advance(len(chunk))
		return base, nil
	}
	if unsure {
		l.producer.abandon()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("not acknowledged within %s: %w", p.config.DeliveryTimeout, err)
	}
	return 0, err
}

// isFinal says that the broker has refused the batch and would again.
func isFinal(err error) bool {
	var refused *kerr.Error
	return errors.As(err, &refused) && !refused.Retriable && !isOutOfSequence(err)
}

// isOutOfSequence says that the broker does not know how far this producer was, for instance because its records have
// expired. A new identity starts over.
func isOutOfSequence(err error) bool {
	return errors.Is(err, kerr.OutOfOrderSequenceNumber) || errors.Is(err, kerr.UnknownProducerID) ||
		errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.InvalidProducerIDMapping)
}

// isRecordError says that the broker refused the batch because of what is in it.
func isRecordError(err error) bool {
	return isTooLarge(err) || errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.InvalidTimestamp) ||
		errors.Is(err, kerr.UnsupportedForMessageFormat)
}

func isTooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

func permanentIfRecord(err error) error {
	switch {
	case isTooLarge(err):
		return event.Permanent(event.Classify(fmt.Errorf("%w: %w", ErrTooLarge, err), "too_large"))
	case errors.Is(err, kerr.InvalidTopicException):
		return event.Permanent(event.Classify(err, "invalid_topic"))
	case isRecordError(err):
		return event.Permanent(event.Classify(err, "invalid_record"))
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("%w: %w", ErrTopicDenied, err)
	}
	return err
}
