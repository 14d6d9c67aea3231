package outbox

import (
	"slices"
	"time"
)

// pauses are what operators have paused.
type pauses struct {
	topics     map[string]bool
	aggregates map[aggregate]bool
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
		k.paused, k.elsewhere, k.after = e.paused.aggregates[k.aggregate], false, 0
		e.unblock(key, k)
	}
	e.pauseTopics(now)
}

// reread takes what has a row and waits to be sent out of memory, because the row may have changed, everything behind it
// under its key, and what has been paused.
func (e *engine) reread() {
	var behind []*item
	for _, q := range e.order {
		q.filter(func(i *item) bool {
			switch {
			case i.parked != nil:
				e.putBack(i)
				return true
			case i.keyed() && e.blocking(i) != nil:
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
		e.block(i.shard, i.orderKey(), i.seq).after = 0
	default:
		e.look(time.Unix(0, 1))
	}
	e.forget(i)
}
