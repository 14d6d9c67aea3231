package bench

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/event"
)

// meter takes the rate of records by the broker's clock.
type meter struct {
	first, last    time.Time
	total, atFirst int
}

func (m *meter) add(at time.Time) {
	switch {
	case m.total == 0 || at.Before(m.first):
		m.first, m.atFirst = at, 1
	case at.Equal(m.first):
		m.atFirst++
	}
	if m.total == 0 || at.After(m.last) {
		m.last = at
	}
	m.total++
}

// rate is the time from the first append to the last, and the records a second in it; what came with the first append took
// no time.
func (m *meter) rate() (seconds, perSecond float64) {
	seconds = m.last.Sub(m.first).Seconds()
	if seconds == 0 {
		return 0, 0
	}
	return seconds, float64(m.total-m.atFirst) / seconds
}

// tally counts what is missing, what is there again, and what comes after a later event of its aggregate or on another
// partition. It needs a byte an event, whatever the payloads.
type tally struct {
	load     load
	expected int
	seen     []bool // by event
	distinct int
	last     map[int]place // by aggregate

	duplicated, reordered int
}

type place struct {
	event     int
	partition int32
}

func newTally(l load, expected int) *tally {
	return &tally{load: l, expected: expected, last: map[int]place{}}
}

// add takes the next record of a partition. One that is not, to the byte, what was written stands for no event.
func (t *tally) add(r *kgo.Record) {
	n, ok := number(broker.Header(r, event.IDKey))
	if !ok || !bytes.Equal(r.Value, t.load.payload(n)) {
		return
	}
	if n >= len(t.seen) {
		t.seen = append(t.seen, make([]bool, n+1-len(t.seen))...)
	}
	if t.seen[n] {
		t.duplicated++
		return
	}
	t.seen[n] = true
	t.distinct++
	aggregate := n % t.load.aggregates
	before, followed := t.last[aggregate]
	if followed && (n < before.event || r.Partition != before.partition) {
		t.reordered++
	}
	t.last[aggregate] = place{max(n, before.event), r.Partition}
}

func (t *tally) lost() int { return t.expected - t.distinct }

// percentile is the smallest value that p percent of all do not exceed, in milliseconds.
func percentile(all []time.Duration, p int) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	index := (len(sorted)*p + 99) / 100
	return float64(sorted[index-1].Microseconds()) / 1000
}

// median is the middle of all; of an even number, the lower of the two.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[(len(all)-1)/2]
}
