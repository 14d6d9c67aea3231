package outbox

import (
	"slices"
	"time"
)

// nextBatch takes the next batch to send, or nil.
func (e *engine) nextBatch(now time.Time) *Batch {
	if e.inFlight >= e.config.MaxInFlight {
		return nil
	}
	for n, q := range e.order {
		items := q.next(now, e.config.BatchSize)
		if len(items) == 0 {
			continue
		}
		e.order = append(slices.Delete(e.order, n, n+1), q)
		b := &Batch{
			topic: q.topic, generation: q.generation, ticket: q.ticket, turns: q.turns,
			items: items, verdicts: make([]verdict, len(items)),
		}
		q.ticket++
		q.inFlight++
		e.inFlight++
		for _, i := range items {
			i.shard.inFlight++
		}
		return b
	}
	return nil
}

// batchEnded takes in the verdicts of a batch. Acknowledged events are to be settled next.
func (e *engine) batchEnded(b *Batch, now time.Time) error {
	e.inFlight--
	q := e.topics[b.topic]
	acked, failure := q.ended(b.items, b.end(), now, e.config)
	for _, i := range b.items {
		i.shard.inFlight--
	}
	for _, i := range acked {
		i.shard.inFlight++
		e.acked = append(e.acked, i)
	}
	for _, s := range e.shards {
		if s.leaving {
			e.leave(s)
		}
	}
	return failure
}

// planSettle takes the acknowledged events, at most n.
func (e *engine) planSettle(n int) []*item {
	n = min(n, len(e.acked))
	items := e.acked[:n:n]
	e.acked = e.acked[n:]
	return items
}

// settled accounts for receipts written in the shards that are still this relay's and returns the shards that are not.
func (e *engine) settled(items []*item, mine map[int16]bool) (lost []*shard) {
	for _, i := range items {
		s := i.shard
		switch {
		case s.gone:
		case !mine[s.token.shard]:
			lost = append(lost, s)
			e.lose(s)
		default:
			e.rows--
			e.bytes -= i.size
			s.rows--
			s.bytes -= i.size
			s.inFlight--
			delete(e.swept, i.place())
			if i.mark != nil {
				i.mark.pending--
			}
		}
	}
	for _, s := range e.shards {
		s.passMarks()
	}
	return lost
}

// unsettle puts events whose settling failed back to be settled again.
func (e *engine) unsettle(items []*item) { e.acked = slices.Concat(items, e.acked) }

// planStore returns the shards whose settled frontier is worth storing: it moved, or nothing but time has for a minute.
func (e *engine) planStore(now time.Time) []*shard {
	var moved []*shard
	for _, s := range e.shards {
		if s.settled.position != s.stored.position || s.settled != s.stored && now.Sub(s.storedAt) > time.Minute {
			moved = append(moved, s)
		}
	}
	slices.SortFunc(moved, func(a, b *shard) int { return int(a.shard) - int(b.shard) })
	return moved
}

// idle says that everything read has been settled or, having failed, waits for another attempt.
func (e *engine) idle() bool { return e.inFlight == 0 && len(e.acked) == 0 }

// wakeAt is when time alone will let something be sent, or the zero time.
func (e *engine) wakeAt() time.Time {
	var at time.Time
	for _, q := range e.order {
		if w := q.wakeAt(); !w.IsZero() && (at.IsZero() || w.Before(at)) {
			at = w
		}
	}
	return at
}
