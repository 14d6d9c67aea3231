package outbox

import (
	"time"

	"github.com/millrace-go/millrace/event"
)

// token is the right to settle events of a shard, as the claim's transaction returned it.
type token struct {
	shard        int16
	claimID      string
	claimVersion int64
}

// frontier (S, P) says of a shard: every event visible in snapshot S at a position up to P has been handed out.
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
	read     frontier // as far as events have been handed out
	resumeTo int64    // up to here an earlier owner may have settled events; 0 when passed

	marks    []*mark // ascending; the first holds back the rest
	settled  frontier
	stored   frontier
	storedAt time.Time

	wanted   int  // rows to ask for, adapted to what the shard turns out to have
	empty    bool // nothing new was left when it was last asked; only a limited run cares
	leaving  bool
	gone     bool
	rows     int // unsettled
	bytes    int64
	inFlight int // with the publisher, or acknowledged and not yet receipted
}

const (
	minWanted    = 16
	resumeWindow = 50_000 // positions one resuming read may pass, so that each statement is bounded and progress is stored
)

// advance moves the shard's frontier to where a read took it.
func (s *shard) advance(to frontier) *mark {
	s.read = to
	m := &mark{frontier: to}
	if n := len(s.marks); n > 0 && s.marks[n-1].pending == 0 && !s.marks[n-1].open {
		s.marks[n-1] = m // nothing waits for the one before: keep the list short
	} else {
		s.marks = append(s.marks, m)
	}
	return m
}

// passMarks moves the settled frontier over every mark that waits for nothing.
func (s *shard) passMarks() {
	for len(s.marks) > 0 && s.marks[0].pending == 0 && !s.marks[0].open {
		s.settled = s.marks[0].frontier
		s.marks[0] = nil
		s.marks = s.marks[1:]
	}
}

// adapt learns from how many rows the shard had when it was asked for some.
func (s *shard) adapt(asked, got, most int) {
	if asked > 0 && got >= asked {
		s.wanted = min(s.wanted*2, most)
	} else {
		s.wanted = max(minWanted, min(s.wanted, got*2))
	}
}

// item is an event on its way through the relay.
type item struct {
	stored
	position int64
	late     bool
	size     int64

	shard    *shard
	mark     *mark // nil for an event the sweep found
	seq      uint64
	attempts int
	receipt  event.Receipt // partition -1 = the publisher does not tell
}

// place is where an event is: a position alone may be taken once in every shard.
type place struct {
	shard    int16
	position int64
}

func (i *item) place() place { return place{i.stored.shard, i.position} }

// key is what must stay in order: the record key, or the event alone.
func (i *item) key() string {
	if i.partitionKey.Valid {
		return "k" + i.partitionKey.String
	}
	return "e" + i.eventID
}
