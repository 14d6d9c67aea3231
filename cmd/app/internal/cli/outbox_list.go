package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/outbox"
)

type outboxListReport struct {
	Count  int                  `json:"count"`
	Next   int64                `json:"next"` // for --after; 0 = that is all
	Events []outbox.ParkedEvent `json:"events"`
}

func newOutboxList(a *app) *cobra.Command {
	var flags parkedFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List parked events, the longest parked first",
		Long: `Lists the events that are parked: scheduled, retrying, blocked, quarantined or discarded. One page is --limit events;
the next begins with --after NEXT.`,
		Args: cobra.NoArgs,
		RunE: a.operate(func(ctx context.Context, o *outbox.Operator, _ []string) error {
			if flags.filter.Limit < 1 || flags.filter.Limit >= outbox.MaxParked {
				return usage{fmt.Errorf("--limit: 1 to %d", outbox.MaxParked-1)}
			}
			if flags.filter.After < 0 {
				return usage{errors.New("--after is negative")}
			}
			if err := flags.read(); err != nil {
				return err
			}
			filter := flags.filter
			filter.Limit++ // whether there are more
			events, err := o.List(ctx, filter)
			if err != nil {
				return err
			}
			report := outboxListReport{Events: events}
			if len(events) == filter.Limit {
				report.Events = events[:filter.Limit-1]
				report.Next = report.Events[len(report.Events)-1].Entry
			}
			report.Count = len(report.Events)
			if a.output == outputJSONLines {
				for _, event := range report.Events {
					if err := a.document(event, nil); err != nil {
						return err
					}
				}
				if report.Next > 0 {
					a.say("There are more: --after %d", report.Next)
				}
				return nil
			}
			return a.document(report, report.show)
		}),
	}
	flags.define(cmd, 100)
	cmd.Flags().Int64Var(&flags.filter.After, "after", 0, "begin behind this entry: the next of the page before")
	storeFlags(cmd)
	return cmd
}

func (r outboxListReport) show(t table.Writer) {
	t.AppendHeader(table.Row{"event_id", "topic", "key", "state", "attempts", "parked", "owner", "waiting", "last error"})
	for _, e := range r.Events {
		t.AppendRow(table.Row{
			e.EventID, e.Topic, keyOf(e.PartitionKey), e.State, e.Attempts, e.ParkedAt.Format(time.RFC3339), e.Owner, waiting(e), shorten(e.LastError, 50),
		})
	}
	more := ""
	if r.Next > 0 {
		more = fmt.Sprintf("more: --after %d", r.Next)
	}
	t.AppendFooter(table.Row{fmt.Sprintf("%d parked events", r.Count), more})
}

// waiting says for what an event waits, or who for it.
func waiting(e outbox.ParkedEvent) string {
	switch {
	case e.WaitsFor != "":
		return "for " + e.WaitsFor
	case e.State == "blocked" && e.Paused:
		return "for its aggregate to be resumed"
	case e.Followers > 0:
		return fmt.Sprintf("%d wait for it", e.Followers)
	case e.DueAt != nil:
		return "until " + e.DueAt.Format(time.RFC3339)
	default:
		return ""
	}
}

func keyOf(key *string) string {
	if key == nil {
		return ""
	}
	return shorten(*key, 40)
}
