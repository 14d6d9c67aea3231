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
	loaded   map[place]*item // events in memory that have a row
	dueAt    time.Time       // when to look for due rows; zero = nothing will be due
	paused   pauses
	version  int64 // of the control row; 0 = to be read
}

// blockedKey is a key whose events wait in the database.
type blockedKey struct {
	shard     *shard
	since     uint64 // events that came into memory before go on
	head      bool   // a refused event is at its head
	newHead   bool   // which is still to be written
	aggregate aggregate
	paused    bool  // that aggregate is
	elsewhere bool  // the next of them goes to a topic that is held
	unwritten int   // events on their way into the database
	after     int64 // the entry up to which they have been read
	loading   bool  // the first of those in the database are being read, to be sent
	waiting   []*item
}

type aggregate struct{ kind, id string }

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
	head      bool  // a refused event is at its head
	after     int64 // entry up to which its followers have been read
	aggregate aggregate
}

func newParking() parking {
	return parking{keys: map[orderKey]*blockedKey{}, releases: map[orderKey]bool{}, loaded: map[place]*item{}}
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
	if !k.head && !k.paused && !k.elsewhere && k.unwritten == 0 && !k.loading {
		e.releases[key] = true
	}
}

// blocking returns the blocked key an event has to wait in, or nil.
func (e *engine) blocking(i *item) *blockedKey {
	if len(e.paused.aggregates) > 0 && i.aggregateType != "" {
		if a := (aggregate{i.aggregateType, i.aggregateID}); e.paused.aggregates[a] {
			if q := e.queue(i.destination()); q.inFlight > 0 && e.keys[i.orderKey()] == nil {
				q.dirty = true // one before it may be refused and has to be parked first: see parkPaused
				return nil
			}
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
			if p.item.parked != nil && p.item.parked.version != e.version {
				e.version = 0 // an operator may have changed the row first: what it says is read again
			}
			if p.delay > 0 {
				e.look(now.Add(min(p.delay, e.config.SweepInterval)))
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

func (e *engine) parkingIdle() bool { return len(e.toPark) == 0 }

func (e *engine) passMarks() {
	for s := range maps.Values(e.shards) {
		s.passMarks()
	}
}
