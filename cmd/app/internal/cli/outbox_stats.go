package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/outbox"
)

type outboxStatsReport struct {
	Pending         int64              `json:"pending"`
	Claimed         int64              `json:"claimed"`
	Retrying        int64              `json:"retrying"`
	Blocked         int64              `json:"blocked"`
	Quarantined     int64              `json:"quarantined"`
	Scheduled       int64              `json:"scheduled"`
	Sent            int64              `json:"sent"`
	Discarded       int64              `json:"discarded"`
	OldestPendingMS int64              `json:"oldest_pending_ms"` // pending or claimed
	OldestMS        map[string]*int64  `json:"oldest_ms"`         // null = there is none
	Paused          []outbox.Pause     `json:"paused"`
	Held            []outbox.HeldTopic `json:"held"`
}

func newOutboxStats(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count the events in each state, and say what is paused or held",
		Long: `Counts the events in each state. Each is in one: pending (no living relay has its shard, or its topic is held), claimed
(one is about to send it), parked as scheduled, retrying, blocked, quarantined or discarded, or sent. The figures are
exact and of one moment. All receipts are counted, so this is for looking, not for a dashboard: that is /metrics of
"millrace run".`,
		Args: cobra.NoArgs,
		RunE: a.operate(func(ctx context.Context, o *outbox.Operator, _ []string) error {
			totals, err := o.Stats(ctx)
			if err != nil {
				return err
			}
			report := newOutboxStatsReport(totals)
			return a.sections(report, report.show, showHeld(report.Held), showPaused(report.Paused))
		}),
	}
	storeFlags(cmd)
	return cmd
}

func newOutboxStatsReport(t outbox.Totals) outboxStatsReport {
	r := outboxStatsReport{
		Pending: t.Pending, Claimed: t.Claimed, Retrying: t.Retrying, Blocked: t.Blocked, Quarantined: t.Quarantined,
		Scheduled: t.Scheduled, Sent: t.Sent, Discarded: t.Discarded, OldestPendingMS: t.OldestPending.Milliseconds(),
		OldestMS: map[string]*int64{}, Paused: t.Paused, Held: t.Held,
	}
	for _, state := range []string{"pending", "claimed", "retrying", "blocked", "quarantined", "scheduled", "discarded"} {
		r.OldestMS[state] = nil
		if oldest, ok := t.Oldest[state]; ok {
			milliseconds := oldest.Milliseconds()
			r.OldestMS[state] = &milliseconds
		}
	}
	return r
}

func (r outboxStatsReport) show(t table.Writer) {
	t.AppendHeader(table.Row{"state", "events", "oldest"})
	for _, line := range []struct {
		state  string
		events int64
	}{
		{"pending", r.Pending}, {"claimed", r.Claimed}, {"scheduled", r.Scheduled}, {"retrying", r.Retrying}, {"blocked", r.Blocked},
		{"quarantined", r.Quarantined}, {"discarded", r.Discarded}, {"sent", r.Sent},
	} {
		oldest := ""
		if ms := r.OldestMS[line.state]; ms != nil {
			oldest = age(*ms)
		}
		t.AppendRow(table.Row{line.state, line.events, oldest})
	}
}

// age is a number of milliseconds as people read it.
func age(milliseconds int64) string {
	return (time.Duration(milliseconds) * time.Millisecond).Round(time.Second).String()
}

// sections prints one result like document, as several tables; a section without rows is left out.
func (a *app) sections(v any, sections ...func(t table.Writer)) error {
	if a.output != outputTable {
		return a.document(v, nil)
	}
	for n, show := range sections {
		t := a.newTable()
		show(t)
		if t.Length() == 0 {
			continue
		}
		if n > 0 {
			if _, err := fmt.Fprintln(a.stdout); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(a.stdout, t.Render()); err != nil {
			return err
		}
	}
	return nil
}

func showHeld(held []outbox.HeldTopic) func(table.Writer) {
	return func(t table.Writer) {
		t.AppendHeader(table.Row{"held topic", "reason", "shards", "since", "failures", "last error"})
		for _, h := range held {
			reason := h.Reason
			if !h.Held {
				reason = "catching up, was " + reason
			}
			t.AppendRow(table.Row{h.Topic, reason, h.Shards, h.Since.Format(time.RFC3339), h.Failures, shorten(h.LastError, 60)})
		}
	}
}

func showPaused(paused []outbox.Pause) func(table.Writer) {
	return func(t table.Writer) {
		t.AppendHeader(table.Row{"paused", "since", "by", "reason"})
		for _, p := range paused {
			t.AppendRow(table.Row{p.String(), p.PausedAt.Format(time.RFC3339), p.Actor, shorten(p.Reason, 60)})
		}
	}
}
