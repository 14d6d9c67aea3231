package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxUncommitted is how many handled records may wait for one before them, and would be delivered again after a crash,
// before fetching pauses.
const maxUncommitted = 10_000

// pending is a record that is not committed.
type pending struct {
	position kgo.EpochOffset // behind the record
	record   *kgo.Record     // nil once handled
}

// partition is one assignment of a partition to this member, from its first record to its revocation or loss.
type partition struct {
	subscription *subscription
	number       int32
	ctx          context.Context //nolint:containedctx // that of its messages; nothing else uses it
	cancel       context.CancelFunc
	ending       <-chan struct{} // closed: the subscription ends
	stopping     chan struct{}   // closed: no message is handed out any more
	gone         chan struct{}   // closed: no verdict counts any more

	mu      sync.Mutex
	stopped bool
	dropped bool
	active  int           // messages a worker has
	rested  chan struct{} // closed when stopped and none is active
	chains  map[chainKey]*chain
	prefix  []*pending // in offset order, from the first that is not handled
	open    int        // of them, those not handled
	full    bool
	paused  bool
}

func newPartition(ctx context.Context, s *subscription, number int32) *partition {
	p := &partition{
		subscription: s,
		number:       number,
		stopping:     make(chan struct{}),
		gone:         make(chan struct{}),
		rested:       make(chan struct{}),
		chains:       map[chainKey]*chain{},
	}
	// The end of ctx ends the handing out. Messages in the hands of handlers have the close timeout to finish: only then do
	// their contexts end.
	p.ending = ctx.Done()
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return p
}

// add appends fetched records to the chains of their keys.
func (p *partition) add(records []*kgo.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open += len(records)
	for _, record := range records {
		r := &pending{record: record, position: kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}}
		p.prefix = append(p.prefix, r)
		key := p.chainKey(record)
		if c, busy := p.chains[key]; busy {
			c.records = append(c.records, r)
			continue
		}
		c := &chain{partition: p, key: key, records: []*pending{r}}
		p.chains[key] = c
		p.subscription.ready.push(c)
	}
	p.full = p.full || p.open >= p.subscription.config.MaxInFlight || len(p.prefix) >= maxUncommitted
}

func (p *partition) chainKey(record *kgo.Record) chainKey {
	switch {
	case p.subscription.config.Parallelism == 1:
		return chainKey{}
	case record.Key == nil:
		return chainKey{keyless: record.Offset + 1}
	default:
		return chainKey{key: string(record.Key)}
	}
}

// isFull says whether the partition has no room and fetching from it was not paused for that.
func (p *partition) isFull() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.full && !p.paused
}

// pause stops fetching until the partition has room. The client throws away what it has fetched ahead.
func (p *partition) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full && !p.dropped {
		p.paused = true
		p.subscription.client.PauseFetchPartitions(map[string][]int32{p.subscription.topic: {p.number}})
	}
}

func (p *partition) resume() {
	if p.paused {
		p.subscription.client.ResumeFetchPartitions(map[string][]int32{p.subscription.topic: {p.number}})
	}
	p.full, p.paused = false, false
	select {
	case p.subscription.drained <- struct{}{}:
	default:
	}
}

// begin says whether a message may still be handed out, and counts it.
func (p *partition) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ending:
		return false
	default:
	}
	if p.stopped {
		return false
	}
	p.active++
	return true
}

// end takes the verdict on the head of a chain.
func (p *partition) end(c *chain, verdict outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active--
	if p.stopped && p.active == 0 {
		defer close(p.rested)
	}
	if p.dropped {
		return
	}
	switch verdict {
	case handled:
		c.records[0].record = nil
		c.records = c.records[1:]
		p.open--
		p.advance()
		if p.full && p.open <= p.subscription.config.MaxInFlight/2 && len(p.prefix) <= maxUncommitted/2 {
			p.resume()
		}
		if len(c.records) == 0 {
			delete(p.chains, c.key)
			return
		}
		p.subscription.ready.push(c)
	case refused:
		time.AfterFunc(p.subscription.config.NackResendDelay, func() { p.subscription.ready.push(c) })
	case undelivered:
	}
}

// advance marks the prefix that is handled without a gap for the next commit.
func (p *partition) advance() {
	n := 0
	for n < len(p.prefix) && p.prefix[n].record == nil {
		n++
	}
	if n == 0 {
		return
	}
	p.subscription.client.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{
		p.subscription.topic: {p.number: p.prefix[n-1].position},
	})
	clear(p.prefix[:n])
	p.prefix = p.prefix[n:]
}

// stop ends the handing out of messages.
func (p *partition) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	close(p.stopping)
	if p.active == 0 {
		close(p.rested)
	}
}

// idle is closed when, after stop, no handler has a message any more.
func (p *partition) idle() <-chan struct{} { return p.rested }

// drop ends the partition's messages: their contexts are cancelled and their verdicts do not count. It returns how many
// were still in the hands of handlers.
func (p *partition) drop() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped = true
	p.cancel()
	close(p.gone)
	p.resume()
	return p.active
}
