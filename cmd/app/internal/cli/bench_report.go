package cli

import (
	"errors"
	"fmt"
	"math"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/millrace-go/millrace/cmd/app/internal/bench"
)

// benchReport is what was measured. The field names are a contract; what a command does not measure is null.
type benchReport struct {
	Services             demoServices `json:"services"`
	Events               int          `json:"events"`
	Seconds              float64      `json:"seconds"`
	EventsPerSecond      float64      `json:"events_per_second"`
	LimitPerSecond       *float64     `json:"limit_per_second"`
	Ratio                *float64     `json:"ratio"`
	P50                  *float64     `json:"p50_ms"`
	P99                  *float64     `json:"p99_ms"`
	RSSMiB               *float64     `json:"rss_mb"`
	CPUSeconds           *float64     `json:"cpu_seconds"`
	IdleQueriesPerSecond *float64     `json:"idle_queries_per_second"`
	Lost                 int          `json:"lost"`
	Duplicated           int          `json:"duplicated"`
	Reordered            int          `json:"reordered"`
}

// relayReport is what the commands that run a relay add.
type relayReport struct {
	benchReport
	CPUPerEvent *float64         `json:"relay_cpu_us_per_event"`
	DeadTuples  int64            `json:"dead_tuples"`
	Sustained   *sustainedReport `json:"sustained,omitempty"`

	tuples      bench.Tuples
	what, limit string // in words
}

// sustainedReport is how the relay kept up with writers.
type sustainedReport struct {
	AskedPerSecond   float64 `json:"asked_per_second"`
	WrittenPerSecond float64 `json:"written_per_second"`
	MaxBacklog       int     `json:"max_backlog"`
	FinalBacklog     int     `json:"final_backlog"`
	Flat             bool    `json:"flat"`
}

// newRelayReport makes a report; what and limit say what was taken and what it is compared with.
func newRelayReport(f bench.Figures, s *services, what, limit string) relayReport {
	r := relayReport{
		benchReport: benchReport{
			Services: demoServices{Postgres: s.postgresSource, Kafka: s.kafkaSource},
			Events:   f.Events, Seconds: thousandths(f.Seconds), EventsPerSecond: math.Round(f.EventsPerSecond),
			LimitPerSecond: rounded(f.LimitPerSecond, math.Round),
			P50:            rounded(f.P50Milliseconds, thousandths), P99: rounded(f.P99Milliseconds, thousandths),
			RSSMiB: rounded(f.RSSMiB, tenths), CPUSeconds: rounded(f.CPUSeconds, thousandths),
			IdleQueriesPerSecond: rounded(f.IdleQueriesPerSecond, tenths),
			Lost:                 f.Lost, Duplicated: f.Duplicated, Reordered: f.Reordered,
		},
		DeadTuples: f.DeadTuples.Outbox + f.DeadTuples.Receipt, tuples: f.DeadTuples, what: what, limit: limit,
	}
	if f.EventsPerSecond < 100 {
		r.EventsPerSecond = tenths(f.EventsPerSecond)
	}
	if limit := f.LimitPerSecond; limit != nil && *limit > 0 {
		ratio := thousandths(f.EventsPerSecond / *limit)
		r.Ratio = &ratio
	}
	if cpu := f.CPUSeconds; cpu != nil && f.Events > 0 {
		each := tenths(1e6 * *cpu / float64(f.Events))
		r.CPUPerEvent = &each
	}
	return r
}

// trouble says what a run must not find.
func (r benchReport) trouble() error {
	if r.Lost > 0 || r.Reordered > 0 {
		return errors.New("events lost or out of order")
	}
	return nil
}

func (r relayReport) trouble() error {
	if err := r.benchReport.trouble(); err != nil || r.Sustained == nil || r.Sustained.Flat {
		return err
	}
	return errors.New("the backlog grows")
}

func (r relayReport) show(t table.Writer) {
	t.AppendRows([]table.Row{
		{"events", r.Events, r.what},
		{"events/s", r.EventsPerSecond, fmt.Sprintf("from first to last append, in %.3f s", r.Seconds)},
	})
	if r.LimitPerSecond != nil {
		t.AppendRows([]table.Row{{"limit/s", *r.LimitPerSecond, r.limit}, {"ratio", told(r.Ratio, "%.3f"), ""}})
	}
	if s := r.Sustained; s != nil {
		state := "flat"
		if !s.Flat {
			state = "growing"
		}
		t.AppendRows([]table.Row{
			{"written/s", math.Round(s.WrittenPerSecond), fmt.Sprintf("by %d connections, one event a transaction, %.0f asked for", bench.Writers, s.AskedPerSecond)},
			{"backlog", state, fmt.Sprintf("%d events at most, %d when the writers stopped", s.MaxBacklog, s.FinalBacklog)},
		})
	}
	ofCPU := "of the relay process"
	if r.CPUPerEvent != nil {
		ofCPU += fmt.Sprintf(", %.0f µs an event", *r.CPUPerEvent)
	}
	t.AppendRows([]table.Row{
		{"p50, p99", told(r.P50, "%.1f") + ", " + told(r.P99, "%.1f ms"), "from commit to a consumer, few at a time"},
		{"memory", told(r.RSSMiB, "%.1f MiB"), "largest resident set of the relay process"},
		{"CPU", told(r.CPUSeconds, "%.2f s"), ofCPU},
		{"idle queries/s", told(r.IdleQueriesPerSecond, "%.1f"), ""},
		{"dead tuples", r.DeadTuples, fmt.Sprintf("%d in outbox, %d in outbox_receipt", r.tuples.Outbox, r.tuples.Receipt)},
	})
	r.showCounts(t, "read back")
}

func (r benchReport) showCounts(t table.Writer, how string) {
	t.AppendSeparator()
	t.AppendRows([]table.Row{{"lost", verdict(r.Lost), how}, {"duplicated", r.Duplicated, ""}, {"out of order", verdict(r.Reordered), ""}})
}

func told(x *float64, format string) string {
	if x == nil {
		return "unknown"
	}
	return fmt.Sprintf(format, *x)
}

func rounded(x *float64, round func(float64) float64) *float64 {
	if x == nil {
		return nil
	}
	y := round(*x)
	return &y
}

func tenths(x float64) float64 { return math.Round(10*x) / 10 }

func thousandths(x float64) float64 { return math.Round(1000*x) / 1000 }
