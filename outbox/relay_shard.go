package outbox

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// token is the right to settle events of a shard, as the claim's transaction returned it.
type token struct {
	shard        int16
	claimID      string
	claimVersion int64
}

// frontier (S, P) says of a lane: every event visible in snapshot S at a position up to P has been handed out.
type frontier struct {
	snapshot string
	position int64
}

// mark is a frontier and the number of events that still have to be settled before it may be stored.
type mark struct {
	frontier
	pending int
	open    bool // late events are still being drained into it
}

// shard is a shard under this relay's lease.
type shard struct {
	token
	main  *lane            // of every topic that has no lane of its own
	lanes map[string]*lane // by topic

	leaving  bool
	gone     bool
	rows     int // unsettled
	bytes    int64
	inFlight int // with the publisher or a statement, or acknowledged and not yet receipted

	guard *guard
}

// guard is on after takeovers without progress: one of the events may take its relay down. They are sent one at a time, each
// put on record before, so that the next owner knows which one it was.
type guard struct {
	suspect int64 // the position on record when the shard was claimed
	tries   int   // how many relays ended while sending it
	left    int   // events until all is well again
}

// lane is a way through a shard with a frontier of its own. A topic that is held gets one, so that the others go on.
type lane struct {
	shard *shard
	topic string // "" = the main lane

	read     frontier // as far as events have been handed out
	resumeTo int64    // up to here events may be settled already; 0 when passed
	epoch    int      // changes when read goes back, so that what is being read is not taken

	marks    []*mark // ascending; the first holds back the rest
	settled  frontier
	stored   frontier
	storedAt time.Time
	saved    bool // a topic's lane: as it is now, except for its frontier, the database has it
	exists   bool // the database has it, perhaps as it was

	wanted int  // rows to ask for, adapted to what the lane turns out to have
	empty  bool // nothing new was left when it was last asked; only a limited run cares
	merged bool // it has caught up with the main lane, which reads its topic again
}

const (
	minWanted    = 16
	resumeWindow = 50_000 // positions one read may pass that skips events, so that each statement is bounded and progress is stored
	unbounded    = -1     // instead of a window
)

func newShard(t token, stored frontier, highest int64) *shard {
	s := &shard{token: t, lanes: map[string]*lane{}}
	s.main = s.newLane("", stored, highest)
	return s
}

func (s *shard) newLane(topic string, from frontier, resumeTo int64) *lane {
	l := &lane{shard: s, topic: topic, read: from, settled: from, stored: from, wanted: minWanted}
	if resumeTo > from.position {
		l.resumeTo = resumeTo
	}
	return l
}

// all returns the main lane and the others in the order of their topics.
func (s *shard) all() []*lane {
	all := []*lane{s.main}
	for _, topic := range slices.Sorted(maps.Keys(s.lanes)) {
		all = append(all, s.lanes[topic])
	}
	return all
}

// laneOf returns the lane events of a topic are read by.
func (s *shard) laneOf(topic string) *lane {
	if l := s.lanes[topic]; l != nil && !l.merged {
		return l
	}
	return s.main
}

// excluded lists the topics the main lane does not read. Topics contain no comma.
func (l *lane) excluded() string {
	if l.topic != "" || len(l.shard.lanes) == 0 {
		return ""
	}
	var topics []string
	for topic, other := range l.shard.lanes {
		if !other.merged {
			topics = append(topics, topic)
		}
	}
	slices.Sort(topics)
	return strings.Join(topics, ",")
}

// advance moves the lane's frontier to where a read took it.
func (l *lane) advance(to frontier) *mark {
	l.read = to
	m := &mark{frontier: to}
	if n := len(l.marks); n > 0 && l.marks[n-1].pending == 0 && !l.marks[n-1].open {
		l.marks[n-1] = m // nothing waits for the one before: keep the list short
	} else {
		l.marks = append(l.marks, m)
	}
	return m
}

// passMarks moves the settled frontier over every mark that waits for nothing.
func (l *lane) passMarks() {
	for len(l.marks) > 0 && l.marks[0].pending == 0 && !l.marks[0].open {
		l.settled = l.marks[0].frontier
		l.marks[0] = nil
		l.marks = l.marks[1:]
	}
}

// rewind makes the lane read again what has not been settled, up to where it or the main lane has been.
func (l *lane) rewind() {
	l.resumeTo = max(l.resumeTo, l.read.position, l.shard.main.read.position)
	l.read, l.marks, l.wanted, l.merged = l.settled, nil, minWanted, false
	l.epoch++
}

// done says that a lane which has caught up has nothing left to settle: it can go.
func (l *lane) done() bool { return l.merged && len(l.marks) == 0 }

func (s *shard) passMarks() {
	s.main.passMarks()
	for _, l := range s.lanes {
		l.passMarks()
	}
}

// storable is as far as the shard's own frontier may be stored: not over events that only a lane which the database does
// not have yet keeps from being forgotten.
func (s *shard) storable() frontier {
	for _, l := range s.lanes {
		if !l.exists {
			return s.main.stored
		}
	}
	return s.main.settled
}

// adapt learns from how many rows the lane had when it was asked for some.
func (l *lane) adapt(asked, got, most int) {
	if asked > 0 && got >= asked {
		l.wanted = min(l.wanted*2, most)
	} else {
		l.wanted = max(minWanted, min(l.wanted, got*2))
	}
}
