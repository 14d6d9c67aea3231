package outbox

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-go/millrace/event"
)

// world is a model of everything around an engine: transactions that commit in any order, the read statement, a broker with
// a lane a key, receipts and stored frontiers. Writers of one key exclude each other, as those do that lock the aggregate's
// row, so that the order of a key is that of its positions.
type world struct {
	*rapid.T
	exact  bool // nothing may be sent twice
	shards int16
	faults bool
	e      *engine
	now    time.Time

	events    []*modelEvent // the n-th has position n+1
	open      map[int]bool  // transactions
	committed map[int]bool
	locked    map[string]int // key -> transaction
	snapshots map[string]map[int]bool
	receipts  map[int64]bool

	version map[int16]int64
	stored  map[int16]frontier
	settled map[*shard]int64

	plan     *readPlan
	result   readResult
	inFlight []*Batch
	verdicts map[*Batch][]error
	shut     map[string]uint64
	wire     map[int64]bool
}

type modelEvent struct {
	position int64
	tx       int
	key      string
	shard    int16
	topic    string
}

func newWorld(t *rapid.T, faults bool) *world {
	config := SubscriberConfig{MaxUnsettled: rapid.IntRange(1, 12).Draw(t, "MaxUnsettled"), MaxUnsettledBytes: int64(rapid.IntRange(300, 4000).Draw(t, "MaxUnsettledBytes")),
		BatchSize: rapid.IntRange(1, 4).Draw(t, "BatchSize"), MaxInFlight: 3}
	config.setDefaults()
	w := &world{
		T: t, exact: !faults, shards: int16(rapid.IntRange(1, 3).Draw(t, "shards")), faults: faults, e: newEngine(config, -1), now: time.Unix(1, 0),
		open: map[int]bool{}, committed: map[int]bool{}, locked: map[string]int{}, snapshots: map[string]map[int]bool{"1:1:": {}},
		receipts: map[int64]bool{}, version: map[int16]int64{}, stored: map[int16]frontier{}, settled: map[*shard]int64{},
		verdicts: map[*Batch][]error{}, shut: map[string]uint64{}, wire: map[int64]bool{},
	}
	for n := range w.shards {
		w.stored[n] = frontier{"1:1:", 0}
		w.adopt(n)
	}
	return w
}

func (w *world) adopt(n int16) {
	w.version[n]++
	highest := int64(0)
	for _, e := range w.events {
		if e.shard == n && w.committed[e.tx] {
			highest = e.position
		}
	}
	w.e.adopt(token{shard: n, claimVersion: w.version[n]}, w.stored[n], highest)
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
	w.events = append(w.events, &modelEvent{int64(len(w.events) + 1), tx, key, shard, fmt.Sprint("topic-", key[len(key)-1]/2%2)})
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

// read is read.sql.
func (w *world) read(*rapid.T) {
	if w.plan != nil {
		return
	}
	p, ok := w.e.planRead()
	if !ok {
		return
	}
	r := readResult{snapshot: fmt.Sprint("T", len(w.snapshots))}
	w.snapshots[r.snapshot] = maps.Clone(w.committed)
	pages := r.snapshot
	if p.drainSnapshot != "" {
		pages = p.drainSnapshot
	}
	var late, fresh []*item
	for n, s := range p.shards {
		got := 0
		for _, e := range w.events {
			i := &item{position: e.position, size: 200}
			i.stored = stored{shard: e.shard, eventID: fmt.Sprint(e.position), topic: e.topic}
			i.partitionKey.String, i.partitionKey.Valid = e.key, true
			switch {
			case e.shard != s.token.shard:
			case e.position <= s.read.position:
				if e.position > p.drainAfter && w.snapshots[pages][e.tx] && !w.snapshots[s.read.snapshot][e.tx] && !w.receipts[e.position] {
					i.late = true
					late = append(late, i)
				}
			case w.committed[e.tx] && got < p.wanted[n] && (p.resume[n] == 0 || e.position <= p.resume[n] && !w.receipts[e.position]):
				got++
				fresh = append(fresh, i)
			}
		}
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
		w.e.take(*w.plan, w.result)
		w.plan = nil
	}
}

// send hands a batch to the broker, which decides at once; its answer comes later.
func (w *world) send(*rapid.T) {
	b := w.e.nextBatch(w.now)
	if b == nil {
		return
	}
	w.inFlight = append(w.inFlight, b)
	for _, i := range b.items {
		lane := b.topic + i.key()
		err := w.broker()
		switch {
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

func (w *world) broker() error {
	if !w.faults {
		return nil
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
	for _, e := range w.events[:i.position-1] {
		if "k"+e.key == i.key() && w.committed[e.tx] && !w.wire[e.position] {
			w.Fatalf("event %d of %s was sent before event %d", i.position, e.key, e.position)
		}
	}
}

// answer ends a batch, any of those in flight.
func (w *world) answer(*rapid.T) {
	if len(w.inFlight) == 0 {
		return
	}
	n := rapid.IntRange(0, len(w.inFlight)-1).Draw(w.T, "batch")
	b := w.inFlight[n]
	w.inFlight = slices.Delete(w.inFlight, n, n+1)
	for i, err := range w.verdicts[b] {
		b.Report(i, event.Receipt{}, err)
	}
	_ = w.e.batchEnded(b, w.now)
}

// settle writes receipts, or fails to, or does and does not know.
func (w *world) settle(*rapid.T) {
	items := w.e.planSettle(rapid.IntRange(1, 5).Draw(w.T, "receipts"))
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
		}
	}
	if outcome == 1 || outcome == 2 {
		w.e.unsettle(items)
		return
	}
	w.e.settled(items, mine)
}

func (w *world) store(*rapid.T) {
	for _, s := range w.e.planStore(w.now) {
		s.stored = s.settled
		w.stored[s.token.shard] = s.settled
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
		w.stored[s.token.shard] = s.settled
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
	rows := 0
	for n, s := range w.e.shards {
		w.covered(n, s.settled, "settled")
		if s.settled.position < w.settled[s] {
			w.Fatalf("the frontier of shard %d went back from %d to %d", n, w.settled[s], s.settled.position)
		}
		w.settled[s] = s.settled.position
		rows += s.rows
		if s.inFlight < 0 || s.rows < 0 || s.bytes < 0 {
			w.Fatalf("shard %d counts %d in flight, %d rows, %d bytes", n, s.inFlight, s.rows, s.bytes)
		}
	}
	for n, f := range w.stored {
		w.covered(n, f, "stored")
	}
	if w.e.rows != rows || rows > w.e.config.MaxUnsettled || w.e.bytes > w.e.config.MaxUnsettledBytes+200 {
		w.Fatalf("%d events, %d bytes in memory, the shards have %d", w.e.rows, w.e.bytes, rows)
	}
}

// covered says whether every event a frontier claims to have seen has its receipt.
func (w *world) covered(n int16, f frontier, which string) {
	for _, e := range w.events {
		if e.shard == n && e.position <= f.position && w.snapshots[f.snapshot][e.tx] && !w.receipts[e.position] {
			w.Fatalf("the %s frontier (%s, %d) of shard %d is ahead of event %d", which, f.snapshot, f.position, n, e.position)
		}
	}
}

// finish ends all faults and works until nothing is left to do.
func (w *world) finish() {
	w.faults = false
	for tx := range w.open {
		w.committed[tx] = true
	}
	clear(w.open)
	for range 40 * (len(w.events) + 10) {
		w.take(nil)
		w.read(nil)
		w.take(nil)
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
	}
	for _, e := range w.events {
		if w.committed[e.tx] && !w.receipts[e.position] {
			w.Fatalf("event %d was never settled", e.position)
		}
	}
}

func testWorld(t *testing.T, faults bool) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, faults)
		actions := map[string]func(*rapid.T){
			"write": w.write, "write more": w.write, "end": w.end, "end another": w.end, "read": w.read, "take": w.take, "send": w.send, "answer": w.answer,
			"settle": w.settle, "store": w.store, "wait": w.wait, "hand over": w.handOver, "release": w.release, "claim": w.claim, "": w.check,
		}
		if faults {
			actions["takeover"] = w.takeover
		}
		t.Repeat(actions)
		w.finish()
	})
}

func TestEngineSendsEveryEventOnceAndInOrderWithoutFaults(t *testing.T) { testWorld(t, false) }

func TestEngineLosesAndReordersNothingUnderFaults(t *testing.T) { testWorld(t, true) }
