package outbox

import (
	"math"
	"sync/atomic"
)

// Buckets of the histograms in Stats: upper bounds, ascending. Observations above the last are counted besides.
var (
	batchBounds  = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}
	secondBounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
)

// Histogram counts observations in fixed buckets.
type Histogram struct {
	Bounds []float64 // upper bounds, inclusive and ascending
	Counts []uint64  // observations up to the bound and above the one before; one more than bounds, for those above the last
	Sum    float64   // of all observations
}

// Count is the number of observations.
func (h Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// histogram is written by any number of goroutines without a lock. What is read while it is written may lack a part of the
// latest observation.
type histogram struct {
	bounds []float64
	counts []atomic.Uint64
	sum    atomic.Uint64 // bits of a float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

func (h *histogram) observe(value float64) {
	n := 0
	for n < len(h.bounds) && value > h.bounds[n] {
		n++
	}
	h.counts[n].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+value)) {
			return
		}
	}
}

func (h *histogram) snapshot() Histogram {
	s := Histogram{Bounds: h.bounds, Counts: make([]uint64, len(h.counts)), Sum: math.Float64frombits(h.sum.Load())}
	for n := range h.counts {
		s.Counts[n] = h.counts[n].Load()
	}
	return s
}
