package cli

import (
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/millrace-go/millrace/cmd/app/internal/demo"
)

// demoReport is the result of the demo. The field names are a contract.
type demoReport struct {
	OK       bool         `json:"ok"`
	Services demoServices `json:"services"`

	Orders             int `json:"orders"`
	RolledBack         int `json:"rolled_back"`
	EventsCommitted    int `json:"events_committed"`
	Published          int `json:"published"`
	WireDuplicates     int `json:"wire_duplicates"`
	Effects            int `json:"effects"`
	DuplicatesAbsorbed int `json:"duplicates_absorbed"`
	Retries            int `json:"retries"`
	DeadLettered       int `json:"dead_lettered"`
	Replayed           int `json:"replayed"`
	RelaysKilled       int `json:"relays_killed"`
	Lost               int `json:"lost"`
	DuplicatedEffects  int `json:"duplicated_effects"`
	Reordered          int `json:"reordered"`
	Unexpected         int `json:"unexpected"`
	WrongBalances      int `json:"wrong_balances"`

	Violations []string `json:"violations"`
	Seconds    float64  `json:"seconds"`
}

type demoServices struct {
	Postgres string `json:"postgres"`
	Kafka    string `json:"kafka"`
}

func newDemoReport(r demo.Result, s *services, took time.Duration) demoReport {
	return demoReport{
		OK:       len(r.Violations) == 0,
		Services: demoServices{Postgres: s.postgresSource, Kafka: s.kafkaSource},
		Orders:   r.Orders, RolledBack: r.RolledBack, EventsCommitted: r.EventsCommitted, Published: r.Published,
		WireDuplicates: r.WireDuplicates, Effects: r.Effects, DuplicatesAbsorbed: r.DuplicatesAbsorbed,
		Retries: r.Retries, DeadLettered: r.DeadLettered, Replayed: r.Replayed, RelaysKilled: r.Killed,
		Lost: r.Lost, DuplicatedEffects: r.DuplicatedEffects, Reordered: r.Reordered,
		Unexpected: r.Unexpected, WrongBalances: r.WrongBalances,
		Violations: append([]string{}, r.Violations...), Seconds: seconds(took),
	}
}

func (r demoReport) show(t table.Writer) {
	t.AppendHeader(table.Row{"what happened", "", "how it was counted"})
	t.AppendRows([]table.Row{
		{"orders", r.Orders, "rows of the order service"},
		{"transactions rolled back", r.RolledBack, "refused orders, payments and shipments; no trace of their events may be found"},
		{"relays killed", r.RelaysKilled, "with SIGKILL"},
		{"handler attempts that failed", r.Retries, "injected after the handler's work, one of them a panic"},
		{"dead-lettered, replayed", count(r.DeadLettered, r.Replayed), "topic of dead letters; effects after the repair"},
	})
	t.AppendSeparator()
	t.AppendRows([]table.Row{
		{"events committed", r.EventsCommitted, "journal of the order service, and what its events lead to"},
		{"events on the topics", r.Published, "read from offset 0 to the end"},
		{"copies on the topics", r.WireDuplicates, "records beyond the first of their event"},
		{"effects", r.Effects, "rows of the effect table, which has no unique key"},
		{"copies without effect", r.DuplicatesAbsorbed, "topics against effect table"},
	})
	t.AppendSeparator()
	t.AppendRows([]table.Row{
		{"lost", verdict(r.Lost), "committed, but not on its topic or without effect"},
		{"effects twice", verdict(r.DuplicatedEffects), ""},
		{"out of order", verdict(r.Reordered), "per order, on the topics and in effect"},
		{"never committed", verdict(r.Unexpected), "on a topic or in effect nevertheless"},
		{"wrong balances", verdict(r.WrongBalances), "per order, against the journal"},
	})
	ok := text.FgGreen.Sprint("ok")
	if !r.OK {
		ok = text.FgRed.Sprint("NOT OK")
	}
	t.AppendFooter(table.Row{ok, "", "in " + time.Duration(r.Seconds*float64(time.Second)).Round(100*time.Millisecond).String()})
}
