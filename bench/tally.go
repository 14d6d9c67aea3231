package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// tally counts one contender's records. It keeps none of them.
type tally struct {
	seen     []bool
	distinct int
	last     map[int]int   // event by aggregate
	on       map[int]int32 // partition by aggregate

	first, end     time.Time // of the appends, by the broker's clock
	total, atFirst int

	duplicated, reordered int
}

func newTally(events int) *tally {
	return &tally{seen: make([]bool, events), last: map[int]int{}, on: map[int]int32{}}
}

// add takes the next record of a partition. One that is not, to the byte, what was written stands for no event.
func (t *tally) add(r *kgo.Record) {
	t.time(r.Timestamp)
	n, ok := number(r.Value)
	switch {
	case !ok || n >= len(t.seen):
		return
	case t.seen[n]:
		t.duplicated++
		return
	}
	t.seen[n] = true
	t.distinct++
	of := n % aggregates
	partition, followed := t.on[of]
	if followed && (n < t.last[of] || r.Partition != partition) {
		t.reordered++
	}
	t.last[of], t.on[of] = max(n, t.last[of]), r.Partition
}

// time takes the time of a record.
func (t *tally) time(at time.Time) {
	switch {
	case t.total == 0 || at.Before(t.first):
		t.first, t.atFirst = at, 1
	case at.Equal(t.first):
		t.atFirst++
	}
	if t.total == 0 || at.After(t.end) {
		t.end = at
	}
	t.total++
}

func (t *tally) lost() int { return len(t.seen) - t.distinct }

// rate is the events a second from the first append to the last. Those of the first took no time, and neither did copies.
func (t *tally) rate() (seconds, perSecond float64) {
	seconds = t.end.Sub(t.first).Seconds()
	if seconds == 0 {
		return 0, 0
	}
	return seconds, float64(t.distinct-min(t.atFirst, t.distinct)) / seconds
}
