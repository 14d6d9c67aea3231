package outbox

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-go/millrace/event"
)

// world is a model of everything around an engine: transactions that commit in any order, the statements, a broker with a lane
// a key, receipts, parked rows, stored frontiers, and operators. Writers of one key exclude each other, as those do that lock the
// aggregate's row, so that the order of a key is that of its positions.
type world struct {
	*rapid.T
	exact  bool // nothing may be sent twice
	shards int16
	faults bool
	ending bool
	e      *engine
	now    time.Time

	events    []*modelEvent // the n-th has position n+1
	open      map[int]bool  // transactions
	committed map[int]bool
	locked    map[string]int // key -> transaction
	snapshots map[string]map[int]bool
	receipts  map[int64]bool
	rows      map[int64]*modelRow
	entries   int
	pauses    pauses
	control   int64

	version map[int16]int64
	stored  map[int16]frontier
	lanes   map[int16]map[string]laneRow
	settled map[*shard]int64

	plan     *readPlan
	result   readResult
	seen     int64  // control version
	slot     func() // the end of what is being done with parked rows
	inFlight []*Batch
	verdicts map[*Batch][]error
	missing  map[string]bool // topics
	shut     map[string]uint64
	wire     map[int64]bool
}

type modelEvent struct {
	position int64
	tx       int
	key      string
	shard    int16
	topic    string
	due      time.Time // scheduled; zero = not
	excused  bool      // it was scheduled, or an operator took it out of the order
	broken   bool      // it cannot be decoded, until everything is well
}

type modelRow struct {
	parkedAs
	entry    int
	due      time.Time
	revision int
}

func newWorld(t *rapid.T, faults bool) *world {
	config := SubscriberConfig{MaxUnsettled: rapid.IntRange(1, 12).Draw(t, "MaxUnsettled"), MaxUnsettledBytes: int64(rapid.IntRange(300, 4000).Draw(t, "MaxUnsettledBytes")),
		BatchSize: rapid.IntRange(1, 4).Draw(t, "BatchSize"), MaxInFlight: 3, MaxAttempts: rapid.IntRange(1, 3).Draw(t, "MaxAttempts")}
	config.setDefaults()
	w := &world{
		T: t, exact: !faults, shards: int16(rapid.IntRange(1, 3).Draw(t, "shards")), faults: faults, e: newEngine(config, -1), now: time.Unix(1, 0),
		open: map[int]bool{}, committed: map[int]bool{}, locked: map[string]int{}, snapshots: map[string]map[int]bool{"1:1:": {}},
		receipts: map[int64]bool{}, rows: map[int64]*modelRow{}, control: 1, version: map[int16]int64{}, stored: map[int16]frontier{},
		lanes: map[int16]map[string]laneRow{}, settled: map[*shard]int64{}, missing: map[string]bool{},
		verdicts: map[*Batch][]error{}, shut: map[string]uint64{}, wire: map[int64]bool{},
		pauses: pauses{topics: map[string]bool{}, aggregates: map[aggregate]bool{}},
	}
	for n := range w.shards {
		w.stored[n] = frontier{"1:1:", 0}
		w.lanes[n] = map[string]laneRow{}
		w.adopt(n)
	}
	return w
}

// some is a number from 1 to most.
func (w *world) some(most int, of string) int {
	if w.ending {
		return most
	}
	return rapid.IntRange(1, most).Draw(w.T, of)
}

func (w *world) adopt(n int16) {
	w.version[n]++
	c := claimed{token: token{shard: n, claimVersion: w.version[n]}, frontier: w.stored[n], keys: w.keys(n)}
	for _, e := range w.events {
		if e.shard == n && w.committed[e.tx] {
			c.highest = e.position
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(w.lanes[n])) {
		c.lanes = append(c.lanes, w.lanes[n][topic])
	}
	w.e.adopt(c)
}

// keys is parked_keys.sql.
func (w *world) keys(n int16) []keyRow {
	rows := map[orderKey]*keyRow{}
	first := map[orderKey]int{}
	for _, r := range w.rows {
		if r.stored.shard != n || !r.blocks {
			continue
		}
		k := rows[r.orderKey()]
		if k == nil {
			k = &keyRow{shard: n, orderKey: r.orderKey()}
			rows[k.orderKey] = k
		}
		k.head = k.head || r.state != stateBlocked
		if first[k.orderKey] == 0 || r.entry < first[k.orderKey] {
			first[k.orderKey] = r.entry
			k.aggregate = aggregate{r.aggregateType, r.aggregateID}
		}
	}
	var all []keyRow
	for _, k := range rows {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b keyRow) int { return strings.Compare(a.topic+a.key, b.topic+b.key) })
	return all
}

// write adds an event to a transaction, a new one or one that is open.
func (w *world) write(*rapid.T) {
	key := fmt.Sprint("key-", rapid.IntRange(0, 3).Draw(w.T, "key"))
	tx := len(w.open) + len(w.committed) + 1000*len(w.events)
	if open := slices.Sorted(maps.Keys(w.open)); len(open) > 0 && rapid.Bool().Draw(w.T, "same transaction") {
		tx = rapid.SampledFrom(open).Draw(w.T, "transaction")
	}
	if holder, taken := w.locked[key]; taken && holder != tx {
		return
	}
	w.open[tx], w.locked[key] = true, tx
	shard := int16(key[len(key)-1]-'0') % w.shards
	e := &modelEvent{position: int64(len(w.events) + 1), tx: tx, key: key, shard: shard, topic: fmt.Sprint("topic-", key[len(key)-1]/2%2)}
	if rapid.IntRange(0, 9).Draw(w.T, "scheduled") == 0 {
		e.due, e.excused = w.now.Add(time.Minute), true
	}
	e.broken = w.faults && rapid.IntRange(0, 9).Draw(w.T, "broken") == 0
	w.events = append(w.events, e)
}

func (w *world) end(*rapid.T) {
	open := slices.Sorted(maps.Keys(w.open))
	if len(open) == 0 {
		return
	}
	tx := rapid.SampledFrom(open).Draw(w.T, "transaction")
	if rapid.IntRange(0, 4).Draw(w.T, "roll back") > 0 {
		w.committed[tx] = true
	}
	delete(w.open, tx)
	maps.DeleteFunc(w.locked, func(_ string, holder int) bool { return holder == tx })
}

func (w *world) item(e *modelEvent) *item {
	i := &item{position: e.position, size: 200, delay: max(0, e.due.Sub(w.now).Milliseconds())}
	i.stored = stored{shard: e.shard, eventID: fmt.Sprint(e.position), topic: e.topic, aggregateType: "a", aggregateID: e.key}
	i.partitionKey.String, i.partitionKey.Valid = e.key, true
	if e.due.IsZero() {
		i.delay = 0
	}
	return i
}

// away says that an event has a receipt or a row.
func (w *world) away(position int64) bool { return w.receipts[position] || w.rows[position] != nil }

// read is read.sql.
func (w *world) read(*rapid.T) {
	if w.plan != nil || w.seen != w.e.version || w.e.version == 0 {
		return
	}
	p, ok := w.e.planRead()
	if !ok {
		return
	}
	r := readResult{snapshot: fmt.Sprint("T", len(w.snapshots)), version: w.control}
	w.snapshots[r.snapshot] = maps.Clone(w.committed)
	pages := r.snapshot
	if p.drainSnapshot != "" {
		pages = p.drainSnapshot
	}
	var late, fresh []*item
	for n, l := range p.lanes {
		got := 0
		highest := int64(0)
		excluded := strings.Split(l.excluded(), ",")
		for _, e := range w.events {
			if e.shard != l.shard.token.shard {
				continue
			}
			if w.committed[e.tx] && (p.upto[n] == unbounded || e.position <= p.upto[n]) {
				highest = e.position
			}
			if l.topic != "" && l.topic != e.topic || slices.Contains(excluded, e.topic) {
				continue
			}
			i := w.item(e)
			i.lane = n
			switch {
			case e.position <= l.read.position:
				if e.position > p.drainAfter && w.snapshots[pages][e.tx] && !w.snapshots[l.read.snapshot][e.tx] && !w.away(e.position) {
					i.late = true
					late = append(late, i)
				}
			case w.committed[e.tx] && got < p.wanted[n] && (p.upto[n] == unbounded || e.position <= p.upto[n] && !w.away(e.position)):
				got++
				fresh = append(fresh, i)
			}
		}
		r.highest = append(r.highest, highest)
	}
	byPosition := func(a, b *item) int { return int(a.position - b.position) }
	slices.SortFunc(late, byPosition)
	slices.SortFunc(fresh, byPosition)
	late = late[:min(len(late), p.maxLate)]
	r.late = len(late)
	if p.drainSnapshot == "" && len(late) > 2 { // too many in one transaction
		late, r.late = nil, p.maxLate
	}
	bytes := int64(0)
	for _, i := range slices.Concat(late, fresh) {
		if bytes > 0 && bytes >= p.maxBytes {
			r.cut = true
			break
		}
		bytes += i.size
		r.items = append(r.items, i)
	}
	slices.SortFunc(r.items, byPosition)
	w.plan, w.result = &p, r
}

func (w *world) take(*rapid.T) {
	if w.plan != nil {
		if w.seen = w.result.version; w.seen == w.e.version {
			w.e.take(*w.plan, w.result)
		}
		w.plan = nil
	}
}

// rowsDo does the next thing with parked rows, as startParking. What the engine makes of it comes later.
func (w *world) rowsDo(*rapid.T) {
	if w.slot != nil {
		w.slot()
		w.slot = nil
		return
	}
	switch e := w.e; {
	case len(e.toPark) > 0:
		w.park(e.planPark(w.some(3, "rows")))
	case w.seen != e.version || e.version == 0:
		c := control{version: w.control, pauses: pauses{maps.Clone(w.pauses.topics), maps.Clone(w.pauses.aggregates)}}
		for n := range w.shards {
			c.keys = append(c.keys, w.keys(n)...)
		}
		w.slot = func() {
			w.seen = c.version
			e.obey(c, w.now)
		}
	case len(e.releases) > 0:
		if of, limit := e.planRelease(); len(of) > 0 {
			w.followers(of, limit)
		}
	case e.dueIn(w.now):
		if limit, ok := e.planDue(); ok {
			w.due(limit)
		}
	}
}

func (w *world) park(rows []parkedAs) {
	fails := w.faults && rapid.IntRange(0, 4).Draw(w.T, "parking fails") == 0
	written := !fails || rapid.Bool().Draw(w.T, "after it was written")
	mine := map[int16]bool{}
	for _, r := range rows {
		n := r.stored.shard
		if mine[n] = r.shard.claimVersion == w.version[n]; !mine[n] || !written {
			continue
		}
		row := w.rows[r.position]
		switch {
		case r.item.parked == nil && row == nil:
			row = &modelRow{}
			w.entries++
			row.entry = w.entries
		case r.item.parked == nil, row == nil || row.revision != r.item.parked.revision:
			continue
		case r.state == stateBlocked:
			w.entries++
			row.entry = w.entries
		}
		row.parkedAs, row.due = r, time.Time{}
		switch r.state {
		case stateScheduled:
			row.due = w.events[r.position-1].due
		case stateRetrying:
			row.due = w.now.Add(r.delay)
		}
		w.rows[r.position] = row
	}
	w.slot = func() {
		if fails {
			w.e.unpark(rows)
		} else {
			w.e.parkedRows(rows, mine, w.now)
		}
	}
}

func (w *world) load(r *modelRow) *item {
	i := w.item(w.events[r.position-1])
	i.delay = 0
	i.parked = &parked{state: r.state, blocks: r.blocks, attempts: r.attempts, revision: r.revision, entry: int64(r.entry)}
	return i
}

func (w *world) sortedRows() []*modelRow {
	rows := slices.Collect(maps.Values(w.rows))
	slices.SortFunc(rows, func(a, b *modelRow) int { return a.entry - b.entry })
	return rows
}

func (w *world) followers(of []keyRow, limit room) {
	if w.faults && rapid.IntRange(0, 4).Draw(w.T, "reading followers fails") == 0 {
		w.slot = func() { w.e.released(of, nil, nil, true) }
		return
	}
	more := map[orderKey]bool{}
	var items []*item
	loaded := map[int64]bool{}
	for _, position := range w.e.followersInMemory(of).positions {
		loaded[position] = true
	}
	for _, k := range of {
		got := 0
		for _, r := range w.sortedRows() {
			if r.stored.shard != k.shard || r.orderKey() != k.orderKey || !r.blocks || int64(r.entry) <= k.after || loaded[r.position] {
				continue
			}
			if got++; got > min(2, limit.rows/len(of)) {
				more[k.orderKey] = true
				break
			}
			items = append(items, w.load(r))
		}
	}
	w.slot = func() { w.e.released(of, items, more, false) }
}

func (w *world) due(limit room) {
	var items []*item
	next := time.Duration(-1)
	held := w.e.heldTopics()
	for _, r := range w.sortedRows() {
		s := w.e.shards[r.stored.shard]
		switch {
		case s == nil || s.leaving || r.due.IsZero() || w.e.loaded[r.item.place()] != nil:
		case r.due.After(w.now):
			if wait := r.due.Sub(w.now); next < 0 || wait < next {
				next = wait
			}
		case slices.Contains(held, r.topic):
		case len(items) < min(2, limit.rows):
			items = append(items, w.load(r))
		default:
			next = 0
		}
	}
	w.slot = func() { w.e.takeDue(items, next, w.now) }
}

// operate is what people do.
func (w *world) operate(*rapid.T) {
	key := fmt.Sprint("key-", rapid.IntRange(0, 3).Draw(w.T, "key"))
	topic := fmt.Sprint("topic-", rapid.IntRange(0, 1).Draw(w.T, "topic"))
	switch rapid.IntRange(0, 5).Draw(w.T, "action") {
	case 0:
		w.pauses.topics[topic] = !w.pauses.topics[topic]
		if !w.pauses.topics[topic] {
			delete(w.pauses.topics, topic)
		}
	case 1:
		a := aggregate{"a", key}
		w.pauses.aggregates[a] = !w.pauses.aggregates[a]
		if !w.pauses.aggregates[a] {
			delete(w.pauses.aggregates, a)
		}
	case 2:
		w.missing[topic] = w.faults && !w.missing[topic]
		return
	default:
		rows := w.sortedRows()
		if len(rows) == 0 {
			return
		}
		r := rapid.SampledFrom(rows).Draw(w.T, "row")
		r.revision++
		switch action := rapid.IntRange(0, 2).Draw(w.T, "change"); {
		case action == 0 && r.state != stateBlocked && r.state != stateDiscarded:
			r.state, r.due, r.attempts = stateRetrying, w.now, 0
		case action == 1 && r.blocks && r.state != stateBlocked:
			r.state, r.blocks, r.due = stateQuarantined, false, time.Time{}
			w.events[r.position-1].excused = true
		case action == 2:
			r.state, r.blocks, r.due = stateDiscarded, false, time.Time{}
			w.events[r.position-1].excused = true
		}
	}
	w.control++
}

// send hands a batch to the broker, which decides at once; its answer comes later.
func (w *world) send(*rapid.T) {
	b := w.e.nextBatch(w.now)
	if b == nil {
		return
	}
	w.inFlight = append(w.inFlight, b)
	for _, i := range b.items {
		lane := b.topic + i.orderKey().key
		err := w.broker(b.topic)
		switch {
		case w.shut[b.topic] >= b.generation:
			err = event.ErrNotAttempted
		case w.faults && w.events[i.position-1].broken: // before it is sent, and nothing after it is
			err = event.Permanent(errDecode)
			w.shut[b.topic] = b.generation
		case w.shut[lane] >= b.generation:
			err = event.ErrNotAttempted
		case err != nil:
			w.shut[lane] = b.generation
		default:
			w.arrived(i)
		}
		w.verdicts[b] = append(w.verdicts[b], err)
	}
}

func (w *world) broker(topic string) error {
	if !w.faults {
		return nil
	}
	if w.missing[topic] {
		return event.ErrTopicUnavailable
	}
	switch rapid.IntRange(0, 11).Draw(w.T, "broker") {
	case 0:
		return errors.New("not now")
	case 1:
		return event.Permanent(errors.New("never"))
	}
	return nil
}

func (w *world) arrived(i *item) {
	if w.wire[i.position] {
		if w.exact {
			w.Fatalf("event %d was sent twice without a fault", i.position)
		}
		return
	}
	w.wire[i.position] = true
	if w.events[i.position-1].excused {
		return
	}
	for _, e := range w.events[:i.position-1] {
		if e.key == i.orderKey().key && w.committed[e.tx] && !w.wire[e.position] && !e.excused {
			w.Fatalf("event %d of %s was sent before event %d", i.position, e.key, e.position)
		}
	}
}

// answer ends a batch, any of those in flight.
func (w *world) answer(*rapid.T) {
	if len(w.inFlight) == 0 {
		return
	}
	n := w.some(len(w.inFlight), "batch") - 1
	b := w.inFlight[n]
	w.inFlight = slices.Delete(w.inFlight, n, n+1)
	for i, err := range w.verdicts[b] {
		b.Report(i, event.Receipt{}, err)
	}
	_ = w.e.batchEnded(b, w.now)
}

// settle writes receipts, or fails to, or does and does not know.
func (w *world) settle(*rapid.T) {
	if w.slot != nil && len(w.e.acked) > 0 && w.e.acked[0].parked != nil {
		return
	}
	items := w.e.planSettle(w.some(5, "receipts"))
	outcome := 0
	if w.faults {
		outcome = rapid.IntRange(0, 4).Draw(w.T, "outcome")
	}
	mine := map[int16]bool{}
	for _, i := range items {
		n := i.stored.shard
		mine[n] = i.shard.claimVersion == w.version[n]
		if mine[n] && outcome != 1 {
			w.receipts[i.position] = true
			if i.parked != nil {
				delete(w.rows, i.position)
			}
		}
	}
	if outcome == 1 || outcome == 2 {
		w.e.unsettle(items)
		return
	}
	w.e.settled(items, mine)
}

func (w *world) store(*rapid.T) {
	moved := w.e.planStore(w.now)
	save, drop := w.e.planLanes(w.now)
	for _, l := range save {
		if n := l.shard.token.shard; l.shard.claimVersion == w.version[n] {
			w.lanes[n][l.topic] = w.e.row(l)
			l.stored, l.saved = l.settled, true
		}
	}
	for _, l := range drop {
		delete(w.lanes[l.shard.token.shard], l.topic)
	}
	w.e.dropped(drop)
	for _, s := range moved {
		s.main.stored = s.storable()
		w.stored[s.token.shard] = s.main.stored
	}
}

// takeover: another relay has the shard for a while.
func (w *world) takeover(*rapid.T) {
	if w.faults {
		n := int16(rapid.IntRange(0, int(w.shards)-1).Draw(w.T, "shard"))
		if s := w.e.shards[n]; s != nil {
			w.e.lose(s)
		}
	}
}

func (w *world) handOver(*rapid.T) {
	if s := w.e.shards[int16(rapid.IntRange(0, int(w.shards)-1).Draw(w.T, "shard"))]; s != nil {
		w.e.leave(s)
	}
}

func (w *world) release(*rapid.T) {
	for _, s := range w.e.left() {
		w.stored[s.token.shard] = s.storable()
		w.e.lose(s)
	}
}

func (w *world) claim(*rapid.T) {
	for n := range w.shards {
		if w.e.shards[n] == nil {
			w.adopt(n)
		}
	}
}

func (w *world) wait(*rapid.T) { w.now = w.now.Add(time.Hour) }

// check is what must hold at any time.
func (w *world) check(*rapid.T) {
	for n, s := range w.e.shards {
		w.covered(n, s.main.settled, "settled", func(topic string) bool { return s.lanes[topic] == nil })
		for topic, l := range s.lanes {
			w.covered(n, l.settled, "settled of "+topic, func(t string) bool { return t == topic })
		}
		if s.main.settled.position < w.settled[s] {
			w.Fatalf("the frontier of shard %d went back from %d to %d", n, w.settled[s], s.main.settled.position)
		}
		w.settled[s] = s.main.settled.position
		if s.inFlight < 0 || s.rows < 0 || s.bytes < 0 {
			w.Fatalf("shard %d counts %d in flight, %d rows, %d bytes", n, s.inFlight, s.rows, s.bytes)
		}
	}
	for n, f := range w.stored {
		w.covered(n, f, "stored", func(topic string) bool { _, lane := w.lanes[n][topic]; return !lane })
		for topic, l := range w.lanes[n] {
			w.covered(n, l.frontier, "stored of "+topic, func(t string) bool { return t == topic })
		}
	}
	rows, bytes := 0, int64(0)
	for _, q := range w.e.order {
		rows, bytes = rows+q.rows, bytes+q.bytes
	}
	if w.e.rows != rows || w.e.bytes != bytes || rows > w.e.config.MaxUnsettled || w.e.bytes > w.e.config.MaxUnsettledBytes+400 {
		w.Fatalf("%d events, %d bytes in memory, the topics have %d and %d", w.e.rows, w.e.bytes, rows, bytes)
	}
}

// covered says whether every event a frontier claims to have seen has its receipt or a row.
func (w *world) covered(n int16, f frontier, which string, of func(topic string) bool) {
	for _, e := range w.events {
		if e.shard == n && of(e.topic) && e.position <= f.position && w.snapshots[f.snapshot][e.tx] && !w.away(e.position) {
			w.Fatalf("the %s frontier (%s, %d) of shard %d is ahead of event %d", which, f.snapshot, f.position, n, e.position)
		}
	}
}

// finish ends all faults and works until nothing is left to do.
func (w *world) finish() {
	w.faults, w.ending = false, true
	clear(w.pauses.topics)
	clear(w.pauses.aggregates)
	clear(w.missing)
	w.control++
	for tx := range w.open {
		w.committed[tx] = true
	}
	clear(w.open)
	for range 40 * (len(w.events) + 10) {
		w.take(nil)
		w.read(nil)
		w.take(nil)
		w.rowsDo(nil)
		w.rowsDo(nil)
		w.e.tryHeld(w.now)
		w.send(nil)
		if len(w.inFlight) > 0 {
			w.answer(nil)
		}
		w.settle(nil)
		w.release(nil)
		w.claim(nil)
		w.store(nil)
		w.wait(nil)
		w.check(nil)
		for _, r := range w.rows {
			if r.state == stateQuarantined && r.blocks {
				r.revision++
				r.state, r.due = stateRetrying, w.now
				w.control++
			}
		}
	}
	for _, e := range w.events {
		if w.committed[e.tx] && !w.receipts[e.position] && !(e.excused && w.rows[e.position] != nil && !w.rows[e.position].blocks && w.rows[e.position].due.IsZero()) {
			w.Fatalf("event %d was never settled: %+v", e.position, w.rows[e.position])
		}
	}
	for n := range w.shards {
		if len(w.lanes[n]) > 0 {
			w.Fatalf("shard %d still has lanes: %v", n, w.lanes[n])
		}
	}
}

func testWorld(t *testing.T, faults bool) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, faults)
		actions := map[string]func(*rapid.T){
			"write": w.write, "write more": w.write, "end": w.end, "end another": w.end, "read": w.read, "take": w.take, "send": w.send, "answer": w.answer,
			"settle": w.settle, "store": w.store, "wait": w.wait, "hand over": w.handOver, "release": w.release, "claim": w.claim, "": w.check,
			"rows": w.rowsDo, "more rows": w.rowsDo, "operate": w.operate, "try": func(*rapid.T) { w.e.tryHeld(w.now) },
		}
		if faults {
			actions["takeover"] = w.takeover
		}
		for range 4 { // some histories take many steps
			t.Repeat(actions)
		}
		w.finish()
	})
}

func TestEngineSendsEveryEventOnceAndInOrderWithoutFaults(t *testing.T) { testWorld(t, false) }

func TestEngineLosesAndReordersNothingUnderFaults(t *testing.T) { testWorld(t, true) }
