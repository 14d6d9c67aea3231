package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// chainKey tells the records that must follow each other: those of one key. Each record without a key is its own.
type chainKey struct {
	key     string
	keyless int64 // offset+1 of a record without a key, else 0
}

// chain holds the records of one key in order. Its head is in the hands of one worker at most; the partition's mutex
// guards the rest.
type chain struct {
	partition *partition
	key       chainKey
	records   []*pending
}

func (c *chain) head() *kgo.Record {
	c.partition.mu.Lock()
	defer c.partition.mu.Unlock()
	return c.records[0].record
}

// chainQueue passes chains whose head may be delivered to the workers, first come first served.
type chainQueue struct {
	mu     sync.Mutex
	filled *sync.Cond
	chains []*chain
	closed bool
}

func newChainQueue() *chainQueue {
	q := &chainQueue{}
	q.filled = sync.NewCond(&q.mu)
	return q
}

func (q *chainQueue) push(c *chain) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.chains = append(q.chains, c)
	q.filled.Signal()
}

// pop waits for a chain; false means closed.
func (q *chainQueue) pop() (*chain, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.chains) == 0 && !q.closed {
		q.filled.Wait()
	}
	if q.closed {
		return nil, false
	}
	c := q.chains[0]
	q.chains = q.chains[1:]
	return c, true
}

func (q *chainQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
}
