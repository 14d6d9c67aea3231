package outbox

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// engine decides what a relay does: what to read, what to send, what to settle, what to park, what to store. It does no I/O
// and is used by one goroutine, so that every decision can be tested without a database.
type engine struct {
	config SubscriberConfig

	shards map[int16]*shard
	topics map[string]*topicQueue
	order  []*topicQueue // for taking turns

	rows     int // unsettled
	bytes    int64
	reading  room // what the read and the load under way may bring
	loading  room
	seq      uint64
	inFlight int // batches
	acked    []*item
	swept    map[place]*shard // found by the sweep and not settled yet
	drain    *drain
	limit    int // events still to be read; -1 = no limit

	parking
}

// room is how much may be taken into memory.
type room struct {
	rows  int
	bytes int64
}

const never = 24 * time.Hour // much longer than a limited run

func newEngine(config SubscriberConfig, limit int) *engine {
	if limit >= 0 { // each event is tried once
		config.MinBackoff, config.MaxBackoff = never, never
	}
	return &engine{
		config: config, shards: map[int16]*shard{}, topics: map[string]*topicQueue{}, swept: map[place]*shard{}, limit: limit,
		parking: newParking(),
	}
}

// adopt starts reading a shard from its stored frontier. Up to the highest position, events may be settled already.
func (e *engine) adopt(c claimed) {
	if old := e.shards[c.shard]; old != nil {
		e.lose(old)
	}
	s := newShard(c.token, c.frontier, c.highest)
	e.shards[c.shard] = s
	e.adoptLanes(s, c)
	e.adoptKeys(s, c.keys)
	if c.takeovers >= guardAfter {
		s.guard = &guard{suspect: c.suspect, tries: c.suspectTries, left: max(guardEvents, 2*e.config.MaxUnsettled/len(e.shards))}
	}
}

// lose forgets a shard that belongs to somebody else now, and everything of it. What is in flight is forgotten when it ends.
func (e *engine) lose(s *shard) {
	delete(e.shards, s.token.shard)
	s.gone = true
	e.discard(s)
	e.acked = slices.DeleteFunc(e.acked, func(i *item) bool {
		if i.shard == s {
			e.uncount(i)
		}
		return i.shard == s
	})
	maps.DeleteFunc(e.swept, func(_ place, of *shard) bool { return of == s })
}

// leave stops work on a shard so that it can be given back once nothing of it is in flight.
func (e *engine) leave(s *shard) {
	s.leaving = true
	e.discard(s)
}

// discard forgets the waiting events of a shard. Its marks still wait for them: the next owner reads them again.
func (e *engine) discard(s *shard) {
	drop := func(i *item) bool {
		if i.shard == s {
			e.uncount(i)
		}
		return i.shard == s
	}
	for _, q := range e.order {
		q.filter(drop)
	}
	e.discardParking(s, drop)
}

// left returns the leaving shards that nothing is in flight of.
func (e *engine) left() []*shard {
	return e.sorted(func(s *shard) bool { return s.leaving && s.inFlight == 0 })
}

// owned returns the shards that are not leaving, in order.
func (e *engine) owned() []*shard {
	return e.sorted(func(s *shard) bool { return !s.leaving })
}

func (e *engine) sorted(which func(*shard) bool) []*shard {
	var shards []*shard
	for _, s := range e.shards {
		if which(s) {
			shards = append(shards, s)
		}
	}
	slices.SortFunc(shards, func(a, b *shard) int { return cmp.Compare(a.token.shard, b.token.shard) })
	return shards
}

// queue returns the queue of a topic.
func (e *engine) queue(topic string) *topicQueue {
	q := e.topics[topic]
	if q == nil {
		q = newTopicQueue(topic)
		e.topics[topic] = q
		e.order = append(e.order, q)
	}
	return q
}

// admit counts an event that has come into memory and gives it its place in the order.
func (e *engine) admit(s *shard, m *mark, i *item) {
	e.seq++
	i.seq, i.shard, i.mark = e.seq, s, m
	if m != nil {
		m.pending++
	}
	if e.limit > 0 {
		e.limit--
	}
	e.count(i, 1)
}

func (e *engine) count(i *item, n int) {
	bytes := int64(n) * i.size
	q := e.queue(i.destination())
	e.rows, i.shard.rows, q.rows = e.rows+n, i.shard.rows+n, q.rows+n
	e.bytes, i.shard.bytes, q.bytes = e.bytes+bytes, i.shard.bytes+bytes, q.bytes+bytes
}

// uncount takes an event out of memory without a word on what became of it.
func (e *engine) uncount(i *item) {
	e.count(i, -1)
	delete(e.loaded, i.place())
}

// forget takes an event out of memory that nothing has to wait for any longer: it is settled, parked, or a lane's.
func (e *engine) forget(i *item) {
	e.uncount(i)
	delete(e.swept, i.place())
	if i.mark != nil {
		i.mark.pending--
	}
}

// room is how many more events a read may bring.
func (e *engine) room() int {
	room := e.config.MaxUnsettled - e.rows - e.loading.rows
	if e.limit >= 0 {
		room = min(room, e.limit)
	}
	return room
}

// byteRoom is how many more bytes of events a read may bring.
func (e *engine) byteRoom() int64 { return e.config.MaxUnsettledBytes - e.bytes - e.loading.bytes }

// loadRoom is how many parked events may be brought back beside what is being read: a part of the memory, so that reading
// goes on.
func (e *engine) loadRoom() room {
	r := room{min(parkLimit, max(1, e.config.MaxUnsettled/8), e.room()-e.reading.rows), min(max(1, e.config.MaxUnsettledBytes/8), e.byteRoom()-e.reading.bytes)}
	if r.rows <= 0 || r.bytes <= 0 {
		return room{}
	}
	return r
}

// takeSwept queues events the sweep found and returns those not known already.
func (e *engine) takeSwept(items []*item) []*item {
	var found []*item
	for _, i := range items {
		s := e.shards[i.stored.shard]
		if s == nil || s.leaving || e.swept[i.place()] == s {
			continue
		}
		e.swept[i.place()] = s
		e.admit(s, nil, i)
		e.place(i)
		found = append(found, i)
	}
	return found
}

// place puts an event where it has to wait: for its time, behind others of its key, or for the next batch of its topic.
func (e *engine) place(i *item) {
	if s := i.shard; s.guard != nil && s.guard.tries >= crashTries && s.guard.suspect == i.position {
		e.convict(i)
		return
	}
	if i.parked == nil && i.delay > 0 {
		e.park(i, parkedAs{state: stateScheduled, delay: time.Duration(i.delay) * time.Millisecond})
		return
	}
	if i.keyed() {
		if k := e.blocking(i); k != nil {
			e.wait(k, i)
			return
		}
	}
	q := e.queue(i.destination())
	if i.parked != nil && q.isHeld() {
		e.putBack(i)
		return
	}
	q.ready = append(q.ready, i)
}

// nextBatch takes the next batch to send, or nil.
func (e *engine) nextBatch(now time.Time) *Batch {
	size := e.config.BatchSize
	guarded := e.guarded(now)
	if guarded {
		if size = 1; e.inFlight > 0 {
			return nil
		}
	}
	for n, q := range e.order {
		if q.inFlight >= e.config.MaxInFlight {
			continue
		}
		// Of what a publisher that hangs has, nothing can be forgotten: it gets half of the memory at most.
		items := q.next(now, min(size, max(e.config.MaxUnsettled/2, 1)-q.sending))
		if len(items) == 0 {
			continue
		}
		e.order = append(slices.Delete(e.order, n, n+1), q)
		b := &Batch{
			topic: q.topic, generation: q.generation, ticket: q.ticket, turns: q.turns,
			items: items, verdicts: make([]verdict, len(items)), suspect: guarded && items[0].shard.guard != nil,
		}
		q.ticket++
		if q.stuckSince.IsZero() {
			q.stuckSince = now
		}
		q.inFlight++
		q.sending += len(items)
		e.inFlight++
		for _, i := range items {
			i.shard.inFlight++
		}
		return b
	}
	return nil
}

// idle says that everything read has been settled or, having failed, waits for another attempt.
func (e *engine) idle() bool { return e.inFlight == 0 && len(e.acked) == 0 && e.parkingIdle() }

// wakeAt is when time alone will let something be sent, or the zero time.
func (e *engine) wakeAt() time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, q := range e.order {
		if q.inFlight < e.config.MaxInFlight {
			earlier(q.wakeAt())
		}
		earlier(q.trialAt())
	}
	return at
}
