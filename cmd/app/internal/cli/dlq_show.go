package cli

import (
	"context"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/inbox"
)

// dlqShowReport is all that is known of one event of one consumer. Content is gone once the event is done.
type dlqShowReport struct {
	deadLetterReport
	RecordTime *time.Time        `json:"record_time"`
	DueAt      *time.Time        `json:"due_at"`
	Key        any               `json:"key"`
	Headers    map[string]string `json:"headers"`
	Stack      string            `json:"stack"`
	payloadJSON
}

func newDLQShow(a *app) *cobra.Command {
	var consumer string
	cmd := &cobra.Command{
		Use:   "show EVENT_ID",
		Short: "Show one event of a consumer with its content, whatever state it is in",
		Args:  cobra.ExactArgs(1),
		RunE: a.dlq(func(ctx context.Context, d deadLetters, args []string) error {
			name, err := d.consumer(ctx, consumer, args[0])
			if err != nil {
				return err
			}
			letter, err := d.store.Show(ctx, name, args[0])
			if err != nil {
				return err
			}
			report := newDLQShowReport(letter)
			return a.document(report, report.show)
		}),
	}
	cmd.Flags().StringVar(&consumer, "consumer", "", "whose; required when several know the event")
	a.dlqFlags(cmd)
	return cmd
}

func newDLQShowReport(d inbox.DeadLetter) dlqShowReport {
	r := dlqShowReport{
		deadLetterReport: newDeadLetterReport(d), RecordTime: utc(d.RecordTime), DueAt: utc(d.DueAt), Key: textOrBase64(d.Key),
		Headers: d.Headers, Stack: d.Stack,
	}
	if d.State != "done" { // else the content is gone, which is not a tombstone
		r.payloadJSON = showPayload(d.Payload)
	}
	return r
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func (r dlqShowReport) show(t table.Writer) {
	payload := string(r.Payload)
	switch {
	case r.Tombstone:
		payload = "(tombstone)"
	case r.PayloadBase64 != nil:
		payload = "(not JSON; see --json)"
	}
	t.AppendRows([]table.Row{
		{"consumer", r.Consumer}, {"event_id", r.EventID}, {"state", r.State}, {"topic", r.Topic},
		{"attempts", r.Attempts}, {"deaths", r.Deaths}, {"replays", r.Replays}, {"class", r.ErrorClass},
		{"first error", r.FirstError}, {"last error", r.LastError}, {"since", r.UpdatedAt.Format(time.RFC3339)},
		{"payload", payload},
	})
}
