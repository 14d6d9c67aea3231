package outbox

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/event"
)

// topicQueue holds the events of one topic that have been read and not been acknowledged. Topics wait for each other only for
// room in memory.
type topicQueue struct {
	topic    string
	ready    []*item // in the order they were handed out
	failed   []*item // wait for the batches in flight to end, then go first
	inFlight int     // batches
	held     map[string]*heldKey

	generation uint64
	ticket     uint64
	turns      *turnstile
	dirty      bool // something was not sent: nothing more goes out until all batches in flight have ended
	failures   int  // in a row
	retryAt    time.Time
}

// heldKey is an event the broker refused for good and everything of the same key behind it.
type heldKey struct {
	items   []*item
	tries   int
	due     time.Time
	probing bool // the first is being tried again
}

// generations numbers the generations of all topics, sessions and relays of this process: publishers outlive sessions, and
// may be shared.
var generations atomic.Uint64

func newTopicQueue(topic string) *topicQueue {
	return &topicQueue{topic: topic, held: map[string]*heldKey{}, turns: newTurnstile(), generation: generations.Add(1)}
}

// next takes the events of the next batch, at most n, or none if the topic has to wait.
func (q *topicQueue) next(now time.Time, n int) []*item {
	if q.dirty || now.Before(q.retryAt) {
		return nil
	}
	for _, h := range q.held {
		if !h.probing && !now.Before(h.due) {
			h.probing = true
			return h.items[:1:1]
		}
	}
	if len(q.held) == 0 {
		n = min(n, len(q.ready))
		batch := q.ready[:n:n]
		q.ready = q.ready[n:]
		return batch
	}
	batch := make([]*item, 0, min(n, len(q.ready)))
	for len(q.ready) > 0 && len(batch) < n {
		i := q.ready[0]
		q.ready = q.ready[1:]
		if h := q.held[i.key()]; h != nil {
			h.items = append(h.items, i)
			continue
		}
		batch = append(batch, i)
	}
	return batch
}

// wakeAt is when the topic may have something to send again; the zero time if that depends on events, not on time.
func (q *topicQueue) wakeAt() time.Time {
	var at time.Time
	if q.dirty {
		return at
	}
	if len(q.ready) > 0 {
		at = q.retryAt
	}
	for _, h := range q.held {
		if !h.probing && (at.IsZero() || h.due.Before(at)) {
			at = h.due
		}
	}
	return at
}

// ended takes in the verdicts on a batch and returns the acknowledged events and the first real failure.
func (q *topicQueue) ended(items []*item, verdicts []verdict, now time.Time, c SubscriberConfig) (acked []*item, failure error) {
	q.inFlight--
	for n, i := range items {
		err := verdicts[n].err
		attempted := !errors.Is(err, event.ErrNotAttempted)
		if attempted {
			i.attempts++
			if failure == nil {
				failure = err
			}
		}
		h := q.held[i.key()]
		probe := h != nil && h.probing && h.items[0] == i
		if probe && (err == nil || i.shard.gone) {
			q.ready = slices.Concat(h.items[1:], q.ready) // of a shard that was lost and came back, if i's is gone
			delete(q.held, i.key())
		}
		switch {
		case i.shard.gone:
		case err == nil:
			i.receipt = verdicts[n].receipt
			acked = append(acked, i)
		case event.IsPermanent(err), probe:
			if h == nil {
				h = &heldKey{}
				q.held[i.key()] = h
			}
			if !probe {
				h.items = append(h.items, i)
			}
			h.probing = false
			h.due = now.Add(backoff(h.tries, c.MinHold, c.MaxHold))
			h.tries++
		case h != nil:
			h.items = append(h.items, i)
		default:
			q.failed = append(q.failed, i)
		}
		q.dirty = q.dirty || err != nil
	}
	switch {
	case failure != nil && !event.IsPermanent(failure), failure == nil && len(acked) == 0:
		q.retryAt = now.Add(backoff(q.failures, c.MinBackoff, c.MaxBackoff))
		q.failures++
	case len(acked) > 0:
		q.failures = 0
	}
	if q.inFlight == 0 && q.dirty {
		q.restart()
	}
	return acked, failure
}

// restart begins a new generation. Only when no batch is in flight is it certain what was sent; then everything unsent
// goes again in its old order, ahead of the rest.
func (q *topicQueue) restart() {
	q.failed = slices.DeleteFunc(q.failed, func(i *item) bool { // also what came before the refused event under its key
		h := q.held[i.key()]
		if h != nil {
			h.items = append(h.items, i)
		}
		return h != nil
	})
	for _, h := range q.held {
		slices.SortFunc(h.items, bySeq)
	}
	slices.SortFunc(q.failed, bySeq)
	q.ready = slices.Concat(q.failed, q.ready)
	q.failed = nil
	q.generation = generations.Add(1)
	q.dirty = false
}

// drop forgets the events of a shard, except those in flight, and returns how much that was.
func (q *topicQueue) drop(s *shard) (rows int, bytes int64) {
	gone := func(i *item) bool {
		if i.shard != s {
			return false
		}
		rows++
		bytes += i.size
		return true
	}
	q.ready = slices.DeleteFunc(q.ready, gone)
	q.failed = slices.DeleteFunc(q.failed, gone)
	for key, h := range q.held {
		kept := 0
		if h.probing {
			kept = 1
		}
		h.items = append(h.items[:kept], slices.DeleteFunc(h.items[kept:], gone)...)
		if len(h.items) == 0 {
			delete(q.held, key)
		}
	}
	return rows, bytes
}

func bySeq(a, b *item) int { return cmp.Compare(a.seq, b.seq) }

// backoff grows exponentially from low to high with full jitter in its upper half.
func backoff(failures int, low, high time.Duration) time.Duration {
	d := high
	if failures < 30 && low<<failures < high && low<<failures > 0 {
		d = low << failures
	}
	return d/2 + rand.N(d/2+1)
}
