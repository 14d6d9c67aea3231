package outbox

import (
	"errors"
	"slices"
	"time"

	"github.com/millrace-go/millrace/event"
)

// batchEnded takes in the verdicts of a batch. Acknowledged events are to be settled next, refused ones parked.
func (e *engine) batchEnded(b *Batch, now time.Time) (failure error) {
	q := e.topics[b.topic]
	e.inFlight--
	q.inFlight--
	q.sending -= len(b.items)
	acked := 0
	for n, v := range b.end() {
		i := b.items[n]
		i.shard.inFlight--
		if !errors.Is(v.err, event.ErrNotAttempted) {
			i.attempts++
			if failure == nil {
				failure = v.err
			}
		}
		if q.dirty = q.dirty || v.err != nil; i.shard.gone {
			e.uncount(i)
			continue
		}
		if v.err == nil {
			i.receipt = v.receipt
			i.shard.inFlight++
			e.acked = append(e.acked, i)
			acked++
			continue
		}
		if event.IsPermanent(v.err) {
			i.refused = v.err
		}
		q.failed = append(q.failed, i)
	}
	for _, s := range e.shards {
		if s.leaving {
			e.leave(s)
		}
	}
	e.judge(q, acked, failure, now)
	if q.inFlight == 0 && q.dirty {
		e.restart(q, now)
	}
	return failure
}

// judge draws conclusions about the topic: when to try again, whether it is to be held.
func (e *engine) judge(q *topicQueue, acked int, failure error, now time.Time) {
	if acked > 0 {
		q.stuckSince = now
		if q.hold != nil && q.hold.trial {
			e.letGo(q)
		}
	}
	if q.inFlight == 0 && failure == nil {
		q.stuckSince = time.Time{}
	}
	if failure != nil {
		q.failure = failure
	}
	switch {
	case errors.Is(failure, event.ErrTopicUnavailable):
		q.gone = true
	case failure != nil && !event.IsPermanent(failure), failure == nil && acked == 0:
		q.retryAt = now.Add(backoff(q.failures, e.config.MinBackoff, e.config.MaxBackoff))
		q.failures++
	case acked > 0:
		q.failures = 0
	}
}

// restart begins a new generation. Only when no batch is in flight is it certain what was sent; then everything unsent goes
// again in its old order, ahead of the rest, except for what was refused, and what has to wait behind it.
func (e *engine) restart(q *topicQueue, now time.Time) {
	q.generation = generations.Add(1)
	q.dirty = false
	slices.SortFunc(q.failed, bySeq)
	q.ready = slices.Concat(q.failed, q.ready)
	q.failed = nil
	e.parkRefused(q)
	e.parkPaused(q)
	switch {
	case q.hold != nil && q.hold.reason == holdPaused, q.hold != nil && !q.gone:
		e.holdTopic(q, q.hold.reason, q.failure, now)
	case q.gone:
		e.holdTopic(q, holdUnavailable, q.failure, now)
	}
}

// parkPaused parks events of paused aggregates that waited for what was in flight before them.
func (e *engine) parkPaused(q *topicQueue) {
	if len(e.paused.aggregates) == 0 {
		return
	}
	var paused []*item
	q.ready = slices.DeleteFunc(q.ready, func(i *item) bool {
		wait := i.keyed() && e.blocking(i) != nil
		if wait {
			paused = append(paused, i)
		}
		return wait
	})
	for _, i := range paused {
		e.place(i)
	}
}

// parkRefused parks what was refused for good. A verdict counts when everything before it under the same key has been sent:
// else a later event would be parked in front of an earlier one.
func (e *engine) parkRefused(q *topicQueue) {
	if !slices.ContainsFunc(q.ready, func(i *item) bool { return i.refused != nil }) {
		return
	}
	unsent := map[orderKey]bool{}
	var waiting []*item
	q.ready = slices.DeleteFunc(q.ready, func(i *item) bool {
		refused := i.refused != nil
		if i.keyed() {
			refused = refused && !unsent[i.orderKey()]
			if e.isBehind(i) && (i.parked == nil || i.parked.state != stateRetrying) {
				waiting = append(waiting, i)
				return true
			}
		}
		if refused {
			e.refuse(i)
			return true
		}
		i.refused = nil
		unsent[i.orderKey()] = unsent[i.orderKey()] || i.keyed()
		return false
	})
	for _, i := range waiting {
		i.refused = nil
		e.place(i)
	}
}

// planSettle takes the acknowledged events, at most n, parked ones or others.
func (e *engine) planSettle(n int) []*item {
	n = min(n, len(e.acked))
	for k := range n {
		if (e.acked[k].parked != nil) != (e.acked[0].parked != nil) {
			n = k
			break
		}
	}
	items := e.acked[:n:n]
	e.acked = e.acked[n:]
	return items
}

// settled accounts for receipts written in the shards that are still this relay's and returns the shards that are not.
func (e *engine) settled(items []*item, mine map[int16]bool) (lost []*shard) {
	for _, i := range items {
		s := i.shard
		s.inFlight--
		switch {
		case s.gone:
			e.uncount(i)
		case !mine[s.token.shard]:
			lost = append(lost, s)
			e.uncount(i)
			e.lose(s)
		default:
			e.forget(i)
			e.passedGuard(s)
			if i.parked != nil {
				e.headSent(i)
			}
		}
	}
	e.passMarks()
	return lost
}

// unsettle puts events whose settling failed back to be settled again.
func (e *engine) unsettle(items []*item) {
	e.acked = slices.Concat(slices.DeleteFunc(items, func(i *item) bool {
		if i.shard.gone {
			e.uncount(i)
		}
		return i.shard.gone
	}), e.acked)
}

// planStore returns the shards whose settled frontier is worth storing: it moved, or nothing but time has for a minute.
func (e *engine) planStore(now time.Time) []*shard {
	return e.sorted(func(s *shard) bool {
		l, to := s.main, s.storable()
		return to.position != l.stored.position || to != l.stored && now.Sub(l.storedAt) > time.Minute
	})
}
