package outbox

import (
	"maps"
	"slices"
	"time"
)

// parking is the engine's part that deals with events that do not go straight through. Their rows in the database are the
// truth; only the relay that holds their shard inserts rows and releases followers, and it does one thing with rows at a
// time, so what it remembers of them stays right. What operators change raises the control version, and is read again.
type parking struct {
	keys     map[orderKey]*blockedKey
	releases map[orderKey]bool // blocked keys that nothing blocks any longer, as far as is known
	toPark   []parkedAs
	loaded   map[place]bool // events in memory that have a row
	dueAt    time.Time      // when to look for due rows; zero = nothing will be due
	paused   pauses
	version  int64 // of the control row; 0 = not read yet
}

// blockedKey is a key whose events wait in the database.
type blockedKey struct {
	shard     *shard
	since     uint64 // events that came into memory before go on
	head      bool   // a refused event is at its head
	newHead   bool   // which is still to be written
	aggregate aggregate
	paused    bool // that aggregate is
	unwritten int  // events on their way into the database
	loading   bool // the first of those in the database are being read, to be sent
	waiting   []*item
}

type aggregate struct{ kind, id string }

// pauses are what operators have paused.
type pauses struct {
	topics     map[string]bool
	aggregates map[aggregate]bool
}

// parkedAs is a row to be written.
type parkedAs struct {
	*item
	key      *blockedKey // nil if the event is not, or not to be, in the order of a key
	state    string
	blocks   bool
	attempts int
	delay    time.Duration
	failure  failure
	skipped  bool // its followers pass it, by policy
}

// keyRow says of a key that events of it wait in the database.
type keyRow struct {
	shard int16
	orderKey
	head      bool // a refused event is at its head
	aggregate aggregate
}

func newParking() parking {
	return parking{keys: map[orderKey]*blockedKey{}, releases: map[orderKey]bool{}, loaded: map[place]bool{}}
}

func (e *engine) adoptKeys(s *shard, rows []keyRow) {
	for _, row := range rows {
		k := e.block(s, row.orderKey, 0)
		k.head, k.aggregate = row.head, row.aggregate
		k.paused = e.paused.aggregates[row.aggregate]
		e.unblock(row.orderKey, k)
	}
	e.dueAt = time.Unix(0, 1)
}

// block makes the events of a key wait that came into memory since then.
func (e *engine) block(s *shard, key orderKey, since uint64) *blockedKey {
	k := e.keys[key]
	if k == nil {
		k = &blockedKey{shard: s, since: since}
		e.keys[key] = k
	}
	return k
}

// isBehind says that the event waits in its blocked key.
func (e *engine) isBehind(i *item) bool {
	k := e.keys[i.orderKey()]
	return i.keyed() && k != nil && i.seq > k.since
}

// unblock makes the waiting events of a key go on, if nothing holds them back.
func (e *engine) unblock(key orderKey, k *blockedKey) {
	if !k.head && !k.paused && k.unwritten == 0 && !k.loading {
		e.releases[key] = true
	}
}

// blocking returns the blocked key an event has to wait in, or nil.
func (e *engine) blocking(i *item) *blockedKey {
	if len(e.paused.aggregates) > 0 && i.aggregateType != "" {
		if a := (aggregate{i.aggregateType, i.aggregateID}); e.paused.aggregates[a] {
			k := e.block(i.shard, i.orderKey(), i.seq-1)
			k.paused, k.aggregate = true, a
			return k
		}
	}
	if !e.isBehind(i) || i.parked != nil && i.parked.state == stateRetrying {
		return nil // the head itself may be tried
	}
	return e.keys[i.orderKey()]
}

// wait makes an event wait in a blocked key.
func (e *engine) wait(k *blockedKey, i *item) {
	if k.loading && i.parked == nil {
		k.waiting = append(k.waiting, i)
		return
	}
	e.park(i, parkedAs{key: k, state: stateBlocked, blocks: true})
}

// park has a row written for an event.
func (e *engine) park(i *item, as parkedAs) {
	if i.parked != nil && i.parked.state == stateBlocked && as.state == stateBlocked {
		e.forget(i) // the row says so already
		return
	}
	as.item = i
	if i.parked != nil {
		as.attempts += i.parked.attempts
	}
	if as.key != nil {
		as.key.unwritten++
		delete(e.releases, i.orderKey())
	}
	e.toPark = append(e.toPark, as)
}

// refuse parks an event the broker will never take as it is.
func (e *engine) refuse(i *item) {
	f := failureOf(i.refused)
	i.refused = nil
	attempts := 1
	if i.parked != nil {
		attempts += i.parked.attempts
	}
	as := parkedAs{state: stateRetrying, attempts: 1, failure: f}
	as.delay = backoff(attempts-1, e.config.MinHold, e.config.MaxHold)
	if attempts >= e.config.MaxAttempts {
		as.state, as.delay = stateQuarantined, 0
	}
	e.parkHead(i, as)
}

// convict quarantines an event that has taken its relays down.
func (e *engine) convict(i *item) {
	i.shard.guard.suspect = 0
	e.parkHead(i, parkedAs{state: stateQuarantined, attempts: 1, failure: crashed(i.shard.guard.tries)})
}

func (e *engine) parkHead(i *item, as parkedAs) {
	switch {
	case !i.keyed():
	case i.parked != nil && i.parked.state == stateRetrying:
		as.blocks = i.parked.blocks
	default:
		as.blocks = e.config.policy(i.topic) == Block
		as.skipped = !as.blocks
	}
	if as.blocks {
		as.key = e.block(i.shard, i.orderKey(), i.seq)
		as.key.head, as.key.newHead = true, true
	}
	e.park(i, as)
}

// planPark takes the next rows to be written, at most n.
func (e *engine) planPark(n int) []parkedAs {
	n = min(n, len(e.toPark))
	rows := e.toPark[:n:n]
	e.toPark = e.toPark[n:]
	for _, p := range rows {
		p.shard.inFlight++
	}
	return rows
}

// parkedRows accounts for rows written in the shards that are still this relay's and returns the shards that are not.
func (e *engine) parkedRows(rows []parkedAs, mine map[int16]bool, now time.Time) (lost []*shard) {
	for _, p := range rows {
		s := p.shard
		s.inFlight--
		switch {
		case s.gone:
			e.uncount(p.item)
		case !mine[s.token.shard]:
			lost = append(lost, s)
			e.uncount(p.item)
			e.lose(s)
		default:
			e.forget(p.item)
			if p.delay > 0 {
				e.look(now.Add(p.delay))
			}
			if p.key == nil {
				continue
			}
			p.key.unwritten--
			if p.state != stateBlocked {
				p.key.newHead = false
			}
			e.unblock(p.orderKey(), p.key)
		}
	}
	e.passMarks()
	return lost
}

// unpark puts rows whose writing failed back to be written again.
func (e *engine) unpark(rows []parkedAs) {
	var again []parkedAs
	for _, p := range rows {
		if p.shard.inFlight--; p.shard.gone || p.shard.leaving {
			e.uncount(p.item)
			continue
		}
		again = append(again, p)
	}
	e.toPark = slices.Concat(again, e.toPark)
}

// look makes the relay look for due rows at that time, if not before.
func (e *engine) look(at time.Time) {
	if e.dueAt.IsZero() || at.Before(e.dueAt) {
		e.dueAt = at
	}
}

// headSent lets a key go on after its head.
func (e *engine) headSent(i *item) {
	if k := e.keys[i.orderKey()]; k != nil && i.parked.blocks && i.parked.state == stateRetrying {
		k.head = false
		e.unblock(i.orderKey(), k)
	}
}

const releaseKeys = 64 // keys whose followers one statement reads

// planRelease returns blocked keys whose events may go on.
func (e *engine) planRelease() (rows []keyRow, limit room) {
	if limit = e.loadRoom(); limit.rows == 0 {
		return nil, limit
	}
	for key := range e.releases {
		delete(e.releases, key)
		k := e.keys[key]
		if k == nil || k.head || k.paused || k.unwritten > 0 || k.loading || k.shard.leaving || e.queue(key.topic).isHeld() {
			continue // whatever changes that comes back to it
		}
		k.loading = true
		k.shard.inFlight++
		rows = append(rows, keyRow{shard: k.shard.token.shard, orderKey: key})
		if len(rows) == min(releaseKeys, limit.rows) {
			break
		}
	}
	e.loading = limit
	return rows, limit
}

// released takes in followers that were read, in order. Of the keys not in more, that is all there were: they are free.
func (e *engine) released(rows []keyRow, items []*item, more map[orderKey]bool, failed bool) {
	e.loading = room{}
	of := map[orderKey][]*item{}
	for _, i := range items {
		of[i.orderKey()] = append(of[i.orderKey()], i)
	}
	for _, row := range rows {
		k := e.keys[row.orderKey]
		if k == nil || !k.loading {
			continue // its shard is lost
		}
		k.loading = false
		k.shard.inFlight--
		waiting := k.waiting
		k.waiting = nil
		if !failed && !k.head && !k.paused && !k.shard.leaving {
			if more[row.orderKey] {
				e.releases[row.orderKey] = true
			} else {
				delete(e.keys, row.orderKey)
			}
			for _, i := range of[row.orderKey] {
				e.follow(k, i)
			}
		}
		for _, i := range waiting {
			e.place(i)
		}
		if k := e.keys[row.orderKey]; k != nil {
			e.unblock(row.orderKey, k)
		}
	}
}

// follow sends a follower that was read from the database on its way.
func (e *engine) follow(k *blockedKey, i *item) {
	if i.aggregateType != "" && e.paused.aggregates[aggregate{i.aggregateType, i.aggregateID}] {
		e.keys[i.orderKey()] = k
		k.paused, k.aggregate = true, aggregate{i.aggregateType, i.aggregateID}
	}
	q := e.queue(i.destination())
	if q.isHeld() {
		e.keys[i.orderKey()] = k
	}
	if e.keys[i.orderKey()] == k && (k.paused || q.isHeld()) {
		return
	}
	e.admit(k.shard, nil, i)
	e.loaded[i.place()] = true
	q.ready = append(q.ready, i)
}

// planDue says how many due rows to look for.
func (e *engine) planDue() (limit room, ok bool) {
	if limit = e.loadRoom(); limit.rows == 0 {
		return limit, false
	}
	e.loading, e.dueAt = limit, time.Time{}
	return limit, true
}

// takeDue takes in rows that are due. next is how long until there may be others, negative = never.
func (e *engine) takeDue(items []*item, next time.Duration, now time.Time) {
	e.loading = room{}
	for _, i := range items {
		s := e.shards[i.stored.shard]
		if s == nil || s.leaving || e.loaded[i.place()] {
			continue
		}
		e.admit(s, nil, i)
		e.loaded[i.place()] = true
		e.place(i)
	}
	if next >= 0 {
		e.look(now.Add(next))
	}
}

// dueIn says whether it is time to look for due rows.
func (e *engine) dueIn(now time.Time) bool { return !e.dueAt.IsZero() && !now.Before(e.dueAt) }

// inMemory lists the rows that are in memory.
func (e *engine) inMemory() memory {
	var m memory
	for p := range e.loaded {
		m.shards, m.positions = append(m.shards, int64(p.shard)), append(m.positions, p.position)
	}
	return m
}

// heldTopics are the topics nothing is sent to now.
func (e *engine) heldTopics() []string {
	held := []string{}
	for _, q := range e.order {
		if q.isHeld() {
			held = append(held, q.topic)
		}
	}
	return held
}

// control is what operators may have changed.
type control struct {
	version int64
	pauses
	keys []keyRow // of all shards of this relay
}

// obey takes in what operators have changed. Rows in memory are read again; what is in flight goes on.
func (e *engine) obey(c control, now time.Time) {
	e.version, e.paused = c.version, c.pauses
	e.look(now)
	e.reread()
	known := map[orderKey]bool{}
	for _, row := range c.keys {
		if s := e.shards[row.shard]; s != nil && !s.leaving {
			known[row.orderKey] = true
			k := e.block(s, row.orderKey, 0)
			k.head, k.aggregate = row.head || k.newHead, row.aggregate
		}
	}
	for key, k := range e.keys {
		if !known[key] {
			k.head = k.newHead
		}
		k.paused = e.paused.aggregates[k.aggregate]
		e.unblock(key, k)
	}
	e.pauseTopics(now)
}

// reread takes what has a row and waits to be sent out of memory, because the row may have changed, and everything behind
// it under its key.
func (e *engine) reread() {
	var behind []*item
	for _, q := range e.order {
		q.filter(func(i *item) bool {
			switch {
			case i.parked != nil:
				e.putBack(i)
				return true
			case e.isBehind(i):
				behind = append(behind, i)
				return true
			}
			return false
		})
	}
	slices.SortFunc(behind, bySeq)
	for _, i := range behind {
		e.place(i)
	}
}

// putBack takes an event out of memory that a row or a lane keeps from being forgotten, to be read again.
func (e *engine) putBack(i *item) {
	switch {
	case i.parked == nil:
	case i.parked.state == stateBlocked:
		e.block(i.shard, i.orderKey(), i.seq)
	default:
		e.look(time.Unix(0, 1))
	}
	e.forget(i)
}

func (e *engine) discardParking(s *shard, drop func(*item) bool) {
	for key, k := range e.keys {
		if k.shard != s {
			continue
		}
		k.waiting = slices.DeleteFunc(k.waiting, drop)
		if k.loading {
			s.inFlight--
		}
		delete(e.keys, key)
		delete(e.releases, key)
	}
	e.toPark = slices.DeleteFunc(e.toPark, func(p parkedAs) bool { return drop(p.item) })
}

func (e *engine) parkingIdle() bool { return len(e.toPark) == 0 && len(e.releases) == 0 }

func (e *engine) passMarks() {
	for s := range maps.Values(e.shards) {
		s.passMarks()
	}
}
