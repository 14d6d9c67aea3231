package bench

import "time"

// Figures are what was measured. What a measurement does not look at is nil.
type Figures struct {
	Events  int
	Seconds float64 // from the first append of the relay's records to the last, by the broker's clock

	// EventsPerSecond leaves out what came with the very first append, which took no time.
	EventsPerSecond float64
	// LimitPerSecond is what it is compared with, in the same run.
	LimitPerSecond *float64

	// P50Milliseconds and P99Milliseconds are from the return of a commit until a consumer has the event.
	P50Milliseconds, P99Milliseconds *float64

	// RSSMiB, at its largest, and CPUSeconds are of the relay process, over its whole life. RSSMiB is nil where the system
	// does not tell.
	RSSMiB, CPUSeconds *float64

	IdleQueriesPerSecond *float64 // of a relay that has nothing to do

	Lost, Duplicated, Reordered int

	// DeadTuples are those in outbox and outbox_receipt at the end, which every poll would have to walk.
	DeadTuples Tuples
}

// Tuples are counts of rows by table.
type Tuples struct{ Outbox, Receipt int64 }

// consumption is what a relay process took.
type consumption struct {
	cpu     time.Duration
	rssMiB  float64
	rssTold bool
}

func (f *Figures) used(u consumption) {
	f.CPUSeconds = some(u.cpu.Seconds())
	if u.rssTold {
		f.RSSMiB = some(u.rssMiB)
	}
}

func (f *Figures) waited(latencies []time.Duration) {
	f.P50Milliseconds, f.P99Milliseconds = some(percentile(latencies, 50)), some(percentile(latencies, 99))
}

func (f *Figures) counted(t *tally) {
	f.Lost, f.Duplicated, f.Reordered = t.lost(), t.duplicated, t.reordered
}

// also adds what went wrong in another part of the measurement.
func (f *Figures) also(part Figures) {
	f.Lost, f.Duplicated, f.Reordered = f.Lost+part.Lost, f.Duplicated+part.Duplicated, f.Reordered+part.Reordered
}

func some(x float64) *float64 { return &x }
