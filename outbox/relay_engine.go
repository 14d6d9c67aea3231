package outbox

import (
	"maps"
	"slices"
	"time"
)

const (
	lateLimit = 5000           // late events of one read; more are drained in pages
	never     = 24 * time.Hour // much longer than a limited run
)

// engine decides what a relay does: what to read, what to send, what to settle, what to store. It does no I/O and is used
// by one goroutine, so that every decision can be tested without a database.
type engine struct {
	config SubscriberConfig

	shards map[int16]*shard
	topics map[string]*topicQueue
	order  []*topicQueue // for taking turns

	rows     int // unsettled
	bytes    int64
	seq      uint64
	inFlight int // batches
	acked    []*item
	swept    map[place]*shard // found by the sweep and not settled yet
	drain    *drain
	limit    int // events still to be read; -1 = no limit
}

// drain is the state while more late events exist than one read may return. Under the snapshot in which that was found,
// pages are read until none is left, and nothing new is, or a new event would overtake a late one of its aggregate.
type drain struct {
	snapshot string
	after    int64
	shards   []*shard
	marks    []*mark
}

func newEngine(config SubscriberConfig, limit int) *engine {
	if limit >= 0 { // each event is tried once
		config.MinBackoff, config.MaxBackoff, config.MinHold, config.MaxHold = never, never, never, never
	}
	return &engine{config: config, shards: map[int16]*shard{}, topics: map[string]*topicQueue{}, swept: map[place]*shard{}, limit: limit}
}

// adopt starts reading a shard from its stored frontier. Up to the highest position, events may be settled already.
func (e *engine) adopt(t token, stored frontier, highest int64) {
	if old := e.shards[t.shard]; old != nil {
		e.lose(old)
	}
	s := &shard{token: t, read: stored, settled: stored, stored: stored, wanted: minWanted}
	if highest > stored.position {
		s.resumeTo = highest
	}
	e.shards[t.shard] = s
}

// lose forgets a shard that belongs to somebody else now, and everything of it.
func (e *engine) lose(s *shard) {
	delete(e.shards, s.token.shard)
	s.gone = true
	for _, q := range e.order {
		q.drop(s)
	}
	e.rows -= s.rows
	e.bytes -= s.bytes
	maps.DeleteFunc(e.swept, func(_ place, of *shard) bool { return of == s })
	e.acked = slices.DeleteFunc(e.acked, func(i *item) bool { return i.shard == s })
}

// leave stops work on a shard so that it can be given back once nothing of it is in flight.
func (e *engine) leave(s *shard) {
	s.leaving = true
	for _, q := range e.order {
		rows, bytes := q.drop(s)
		e.rows -= rows
		e.bytes -= bytes
		s.rows -= rows
		s.bytes -= bytes
	}
}

// left returns the leaving shards that nothing is in flight of.
func (e *engine) left() []*shard {
	var idle []*shard
	for _, s := range e.shards {
		if s.leaving && s.inFlight == 0 {
			idle = append(idle, s)
		}
	}
	slices.SortFunc(idle, func(a, b *shard) int { return int(a.shard) - int(b.shard) })
	return idle
}

// owned returns the shards that are not leaving, in order.
func (e *engine) owned() []*shard {
	var owned []*shard
	for _, s := range e.shards {
		if !s.leaving {
			owned = append(owned, s)
		}
	}
	slices.SortFunc(owned, func(a, b *shard) int { return int(a.shard) - int(b.shard) })
	return owned
}

// room is how many more events may be taken in.
func (e *engine) room() int {
	room := e.config.MaxUnsettled - e.rows
	if e.limit >= 0 {
		room = min(room, e.limit)
	}
	return room
}

// byteRoom is how many more bytes of events may be taken in.
func (e *engine) byteRoom() int64 { return e.config.MaxUnsettledBytes - e.bytes }

// planRead says what to read next, if there is room in memory for anything.
func (e *engine) planRead() (readPlan, bool) {
	free := e.room()
	if e.limit < 0 && e.rows > 0 && free < e.config.MaxUnsettled/8 {
		return readPlan{}, false // many small reads cost more than a little patience
	}
	bytes := e.byteRoom()
	shards := e.owned()
	if e.drain != nil {
		shards = slices.DeleteFunc(slices.Clone(e.drain.shards), func(s *shard) bool { return s.gone || s.leaving })
		if len(shards) == 0 {
			e.drain, shards = nil, e.owned()
		}
	}
	if free <= 0 || bytes <= 0 || len(shards) == 0 {
		return readPlan{}, false
	}
	p := readPlan{shards: shards, maxBytes: bytes, maxLate: min(lateLimit, free)}
	if e.drain != nil {
		p.drainAfter, p.drainSnapshot = e.drain.after, e.drain.snapshot
	}
	total := 0
	for _, s := range shards {
		total += s.wanted
	}
	for _, s := range shards {
		wanted := s.wanted
		if total > free {
			wanted = max(1, wanted*free/total)
		}
		if e.limit >= 0 { // each shard in turn, until it turns out empty
			wanted = min(wanted, max(0, free-p.rows))
			if s.empty {
				wanted = 0
			}
		}
		if e.drain != nil {
			wanted = 0
		}
		p.rows += wanted
		p.wanted = append(p.wanted, wanted)
		p.resume = append(p.resume, s.resumeWindow())
	}
	return p, true
}

// resumeWindow is the position up to which the next read skips what is receipted, or 0.
func (s *shard) resumeWindow() int64 {
	if s.resumeTo == 0 {
		return 0
	}
	return min(s.read.position+resumeWindow, s.resumeTo)
}

// take queues what a read returned and moves the frontiers. It says whether there may be more to read at once.
func (e *engine) take(p readPlan, r readResult) (more bool) {
	late := 0
	for _, i := range r.items {
		if i.late {
			late++
		}
	}
	complete := late == r.late && r.late < p.maxLate
	if e.drain == nil && complete {
		return e.takeAll(p, r)
	}
	e.takePage(p, r, complete)
	return true
}

func (e *engine) takeAll(p readPlan, r readResult) (more bool) {
	// There is room for the late or for the new ones. What is new can wait, the last first.
	for k := len(r.items) - 1; k >= 0 && len(r.items) > e.room(); k-- {
		if !r.items[k].late {
			r.items, r.cut = slices.Delete(r.items, k, k+1), true
		}
	}
	perShard := make(map[int16][]*item, len(p.shards))
	for _, i := range r.items {
		perShard[i.stored.shard] = append(perShard[i.stored.shard], i)
	}
	for n, s := range p.shards {
		if s.gone || s.leaving {
			continue
		}
		to := frontier{r.snapshot, s.read.position}
		fresh := 0
		for _, i := range perShard[s.token.shard] {
			if !i.late {
				fresh++
				to.position = max(to.position, i.position)
			}
		}
		if p.resume[n] > 0 {
			if fresh == 0 && p.wanted[n] > 0 && !r.cut {
				to.position = p.resume[n]
			}
			more = more || e.limit < 0
			if to.position >= s.resumeTo {
				s.resumeTo = 0
			}
		}
		s.adapt(p.wanted[n], fresh, e.config.MaxUnsettled)
		s.empty = s.empty || p.wanted[n] > 0 && fresh == 0 && s.resumeTo == 0 && !r.cut
		more = more || fresh > 0 || e.limit >= 0 && !s.empty
		m := s.advance(to)
		for _, i := range inVersionOrder(perShard[s.token.shard]) {
			e.enqueue(s, m, i)
		}
		s.passMarks()
	}
	return more
}

// takePage queues a page of late events. What is new in the same read is left to be read again: it must not go first.
func (e *engine) takePage(p readPlan, r readResult, last bool) {
	if e.drain == nil {
		e.drain = &drain{snapshot: r.snapshot, shards: p.shards}
		for _, s := range p.shards {
			m := &mark{frontier: frontier{r.snapshot, s.read.position}, open: true}
			s.marks = append(s.marks, m)
			e.drain.marks = append(e.drain.marks, m)
		}
	}
	d := e.drain
	for _, i := range r.items {
		if !i.late {
			continue
		}
		d.after = max(d.after, i.position)
		for n, s := range d.shards {
			if s.token.shard == i.stored.shard && !s.gone && !s.leaving {
				e.enqueue(s, d.marks[n], i)
			}
		}
	}
	if last {
		for n, s := range d.shards {
			d.marks[n].open = false
			s.read = d.marks[n].frontier
			s.passMarks()
		}
		e.drain = nil
	}
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
		e.enqueue(s, nil, i)
		found = append(found, i)
	}
	return found
}

func (e *engine) enqueue(s *shard, m *mark, i *item) {
	e.seq++
	i.seq, i.shard, i.mark = e.seq, s, m
	if m != nil {
		m.pending++
	}
	e.rows++
	e.bytes += i.size
	s.rows++
	s.bytes += i.size
	if e.limit > 0 {
		e.limit--
	}
	q := e.topics[i.topic]
	if q == nil {
		q = newTopicQueue(i.topic)
		e.topics[i.topic] = q
		e.order = append(e.order, q)
	}
	q.ready = append(q.ready, i)
}

// inVersionOrder sorts the events of one aggregate by version within the places they have: cached sequences can hand out
// positions against the order of commits.
func inVersionOrder(items []*item) []*item {
	type aggregate struct{ kind, id string }
	var last map[aggregate]int64
	sorted := true
	for _, i := range items {
		if i.aggregateVersion == 0 {
			continue
		}
		if last == nil {
			last = make(map[aggregate]int64, len(items))
		}
		a := aggregate{i.aggregateType, i.aggregateID}
		if i.aggregateVersion < last[a] {
			sorted = false
			break
		}
		last[a] = i.aggregateVersion
	}
	if sorted {
		return items
	}
	places := map[aggregate][]int{}
	for n, i := range items {
		if i.aggregateVersion != 0 {
			a := aggregate{i.aggregateType, i.aggregateID}
			places[a] = append(places[a], n)
		}
	}
	out := slices.Clone(items)
	for _, at := range places {
		ordered := slices.Clone(at)
		slices.SortStableFunc(ordered, func(a, b int) int { return int(items[a].aggregateVersion - items[b].aggregateVersion) })
		for n, from := range ordered {
			out[at[n]] = items[from]
		}
	}
	return out
}
