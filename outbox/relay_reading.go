package outbox

import "slices"

const lateLimit = 5000 // late events of one read; more are drained in pages

// drain is the state while more late events exist than one read may return. Under the snapshot in which that was found,
// pages are read until none is left, and nothing new is, or a new event would overtake a late one of its aggregate.
type drain struct {
	snapshot string
	after    int64
	lanes    []*lane
	marks    []*mark
}

// planRead says what to read next, if there is room in memory for anything.
func (e *engine) planRead() (readPlan, bool) {
	e.reading = room{}
	free := e.room()
	if e.limit < 0 && e.rows > 0 && free < e.config.MaxUnsettled/8 {
		return readPlan{}, false // many small reads cost more than a little patience
	}
	bytes := e.byteRoom()
	lanes := e.readable()
	if free <= 0 || bytes <= 0 || len(lanes) == 0 {
		return readPlan{}, false
	}
	e.reading = room{free, bytes}
	p := readPlan{lanes: lanes, maxBytes: bytes, maxLate: min(lateLimit, free)}
	if e.drain != nil {
		p.drainAfter, p.drainSnapshot = e.drain.after, e.drain.snapshot
	}
	total := 0
	for _, l := range lanes {
		total += l.wanted
	}
	catching := map[*shard]bool{} // a lane that is near catches up while the main lane takes nothing new
	for _, l := range lanes {
		wanted := l.wanted
		if total > free {
			wanted = max(1, wanted*free/total)
		}
		if e.limit >= 0 { // each lane in turn, until it turns out empty
			wanted = min(wanted, max(0, free-p.rows))
			if l.empty {
				wanted = 0
			}
		}
		if l.topic != "" && l.shard.main.read.position-l.read.position < resumeWindow {
			wanted = max(wanted, 1)
			catching[l.shard] = true
		}
		if e.drain != nil {
			wanted = 0
		}
		p.rows += wanted
		p.wanted = append(p.wanted, wanted)
		p.upto = append(p.upto, l.window())
		p.epochs = append(p.epochs, l.epoch)
	}
	for n, l := range lanes {
		if l.topic == "" && catching[l.shard] {
			p.wanted[n] = 0
		}
	}
	return p, true
}

// readable returns the lanes that can be read now.
func (e *engine) readable() []*lane {
	if e.drain != nil {
		var lanes []*lane
		for n, l := range e.drain.lanes {
			if !l.shard.gone && !l.shard.leaving && !e.drain.marks[n].closed(l) {
				lanes = append(lanes, l)
			}
		}
		if len(lanes) > 0 {
			return lanes
		}
		e.drain = nil
	}
	var lanes []*lane
	for _, s := range e.owned() {
		lanes = append(lanes, s.main)
		for _, l := range s.all()[1:] {
			if !l.merged && !e.queue(l.topic).isHeld() {
				lanes = append(lanes, l)
			}
		}
	}
	return lanes
}

// closed says that the lane was rewound since the mark was opened in it.
func (m *mark) closed(l *lane) bool { return !slices.Contains(l.marks, m) }

// window is the position up to which the next read looks, skipping what is settled, or unbounded.
func (l *lane) window() int64 {
	switch {
	case l.topic != "": // never past the main lane
		return min(l.read.position+resumeWindow, l.shard.main.read.position)
	case l.resumeTo > 0:
		return min(l.read.position+resumeWindow, l.resumeTo)
	case l.excluded() != "":
		return l.read.position + resumeWindow
	}
	return unbounded
}

// take queues what a read returned and moves the frontiers. It says whether there may be more to read at once.
func (e *engine) take(p readPlan, r readResult) (more bool) {
	e.reading = room{}
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
	e.trim(&r)
	perLane := make([][]*item, len(p.lanes))
	for _, i := range r.items {
		perLane[i.lane] = append(perLane[i.lane], i)
	}
	for n, l := range p.lanes {
		if l.shard.gone || l.shard.leaving || l.epoch != p.epochs[n] {
			continue
		}
		to := frontier{r.snapshot, l.read.position}
		fresh := 0
		for _, i := range perLane[n] {
			if !i.late {
				fresh++
				to.position = max(to.position, i.position)
			}
		}
		exhausted := fresh < p.wanted[n] && !r.cut // everything up to the window was looked at
		if exhausted && p.upto[n] != unbounded {
			to.position = max(to.position, min(p.upto[n], r.visible(n)))
			if l.resumeTo > 0 || l.topic != "" {
				to.position = max(to.position, p.upto[n])
			}
		}
		if p.upto[n] != unbounded {
			more = more || e.limit < 0 && (l.resumeTo > 0 || to.position >= p.upto[n])
			if to.position >= l.resumeTo {
				l.resumeTo = 0
			}
		}
		l.adapt(p.wanted[n], fresh, e.config.MaxUnsettled)
		l.empty = l.empty || p.wanted[n] > 0 && exhausted && fresh == 0 && l.resumeTo == 0 &&
			(p.upto[n] == unbounded || to.position < p.upto[n] || l.topic != "" && to.position == l.shard.main.read.position)
		more = more || fresh > 0 && !exhausted || e.limit >= 0 && !l.empty
		m := l.advance(to)
		for _, i := range inVersionOrder(perLane[n]) {
			e.enqueue(l, m, i)
		}
		l.passMarks()
		if l.topic != "" && exhausted && p.wanted[n] > 0 && to == l.shard.main.read {
			e.merge(l)
		}
	}
	return more
}

// trim lets new events wait when there is room for the late or for the new ones, the last first.
func (e *engine) trim(r *readResult) {
	surplus := len(r.items) - e.room()
	for k := len(r.items) - 1; k >= 0 && surplus > 0; k-- {
		if !r.items[k].late {
			r.items[k] = nil
			r.cut = true
			surplus--
		}
	}
	if r.cut {
		r.items = slices.DeleteFunc(r.items, func(i *item) bool { return i == nil })
	}
}

// takePage queues a page of late events. What is new in the same read is left to be read again: it must not go first.
func (e *engine) takePage(p readPlan, r readResult, last bool) {
	if e.drain == nil {
		e.drain = &drain{snapshot: r.snapshot}
		for n, l := range p.lanes {
			if l.shard.gone || l.shard.leaving || l.epoch != p.epochs[n] {
				continue
			}
			m := &mark{frontier: frontier{r.snapshot, l.read.position}, open: true}
			l.marks = append(l.marks, m)
			e.drain.lanes, e.drain.marks = append(e.drain.lanes, l), append(e.drain.marks, m)
		}
	}
	d := e.drain
	for _, i := range r.items {
		if !i.late {
			continue
		}
		d.after = max(d.after, i.position)
		n := slices.Index(d.lanes, p.lanes[i.lane])
		if n >= 0 && !d.lanes[n].shard.gone && !d.lanes[n].shard.leaving && !d.marks[n].closed(d.lanes[n]) {
			e.enqueue(d.lanes[n], d.marks[n], i)
		}
	}
	if last {
		for n, l := range d.lanes {
			if d.marks[n].closed(l) {
				continue
			}
			d.marks[n].open = false
			l.read = d.marks[n].frontier
			l.passMarks()
		}
		e.drain = nil
	}
}

// enqueue takes in an event that was read.
func (e *engine) enqueue(l *lane, m *mark, i *item) {
	if l.topic == "" && l.shard.laneOf(i.topic) != l {
		return // its topic got a lane of its own while this was read
	}
	e.admit(l.shard, m, i)
	e.place(i)
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
