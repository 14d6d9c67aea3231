package bench

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	Percentile = percentile
	Median     = median
	NthOf      = nthOf
	Own        = own
)

// Rate is what a meter says of records.
func Rate(at ...time.Time) (seconds, perSecond float64) {
	var m meter
	for _, t := range at {
		m.add(t)
	}
	return m.rate()
}

// Count is what a tally says of records, of which as many as expected were written.
func Count(aggregates, expected int, records ...*kgo.Record) (lost, duplicated, reordered int) {
	t := newTally(load{aggregates}, expected)
	for _, r := range records {
		t.add(r)
	}
	return t.lost(), t.duplicated, t.reordered
}

// Record is what a relay makes of the nth event.
func Record(aggregates, n int) (*kgo.Record, error) {
	r, err := load{aggregates}.record(n)
	return &r, err
}

// Flat judges a backlog sampled once a second.
func Flat(backlog []float64, writtenPerSecond float64) bool {
	samples := make([]sample, len(backlog))
	for i, events := range backlog {
		samples[i] = sample{float64(i), events}
	}
	return flat(samples, writtenPerSecond)
}
