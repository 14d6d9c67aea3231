package outbox

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// topicQueue holds the events that are to go to one topic and have not been acknowledged. Topics wait for each other only for
// room in memory.
type topicQueue struct {
	topic    string
	ready    []*item // in the order they were handed out
	failed   []*item // wait for the batches in flight to end, then go first
	inFlight int     // batches
	sending  int     // events in them
	rows     int     // events in memory, also those in flight or without a receipt
	bytes    int64

	generation uint64
	ticket     uint64
	turns      *turnstile
	dirty      bool // something was not sent: nothing more goes out until all batches in flight have ended
	failures   int  // in a row
	retryAt    time.Time
	stuckSince time.Time // since when something is to be sent and nothing has been acknowledged
	failure    error     // the last one
	gone       bool      // it was that the topic as a whole cannot take events
	hold       *hold
}

// generations numbers the generations of all topics, sessions and relays of this process: publishers outlive sessions, and
// may be shared.
var generations atomic.Uint64

func newTopicQueue(topic string) *topicQueue {
	return &topicQueue{topic: topic, turns: newTurnstile(), generation: generations.Add(1)}
}

// next takes the events of the next batch, at most n, or none if the topic has to wait.
func (q *topicQueue) next(now time.Time, n int) []*item {
	if q.dirty || q.isHeld() || now.Before(q.retryAt) {
		return nil
	}
	n = min(n, len(q.ready))
	batch := q.ready[:n:n]
	q.ready = q.ready[n:]
	return batch
}

// wakeAt is when the topic may have something to send again; the zero time if that depends on events, not on time.
func (q *topicQueue) wakeAt() time.Time {
	if q.dirty || q.isHeld() || len(q.ready) == 0 {
		return time.Time{}
	}
	return q.retryAt
}

// filter removes the waiting events that drop says yes to.
func (q *topicQueue) filter(drop func(*item) bool) {
	q.failed = slices.DeleteFunc(q.failed, drop)
	q.ready = slices.DeleteFunc(q.ready, drop)
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
