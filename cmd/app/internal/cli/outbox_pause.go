package cli

import (
	"context"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/outbox"
)

type outboxPauseReport struct {
	Action        string `json:"action"`
	Topic         string `json:"topic"`
	AggregateType string `json:"aggregate_type"`
	AggregateID   string `json:"aggregate_id"`
	DryRun        bool   `json:"dry_run"`

	what string
}

func newOutboxPause(a *app) *cobra.Command {
	return newPausing(a, "pause", "Have no relay send events of a topic, or of an aggregate, until it is resumed",
		`Has all relays hold back the events of a topic, or of an aggregate in all topics. What is in flight is finished. The
pause is in the database: it holds for relays that start later, too. Exit code 6: paused already.`, (*outbox.Operator).Pause)
}

func newOutboxResume(a *app) *cobra.Command {
	return newPausing(a, "resume", "End a pause: what was held back is sent in its order",
		`Ends a pause of a topic or an aggregate. What was held back is sent in its order. Exit code 5: not paused.`,
		(*outbox.Operator).Resume)
}

func newPausing(
	a *app, action, short, long string, do func(o *outbox.Operator, ctx context.Context, p outbox.Pause, dryRun bool) error,
) *cobra.Command {
	var (
		pause  outbox.Pause
		of     string
		dryRun bool
	)
	cmd := &cobra.Command{
		Use:   action + " --topic TOPIC | --aggregate TYPE/ID",
		Short: short,
		Long:  long,
		Args:  cobra.NoArgs,
		RunE: a.operate(func(ctx context.Context, o *outbox.Operator, _ []string) error {
			if of != "" {
				var err error
				if pause.AggregateType, pause.AggregateID, err = aggregate(of); err != nil {
					return err
				}
			}
			if err := pause.Validate(); err != nil {
				return usage{err}
			}
			if err := do(o, ctx, pause, dryRun); err != nil {
				return err
			}
			report := outboxPauseReport{action, pause.Topic, pause.AggregateType, pause.AggregateID, dryRun, pause.String()}
			return a.document(report, report.show)
		}),
	}
	cmd.Flags().StringVar(&pause.Topic, "topic", "", "the topic")
	cmd.Flags().StringVar(&of, "aggregate", "", "the aggregate, TYPE/ID")
	cmd.Flags().StringVar(&pause.Reason, "reason", "", "why, for the audit")
	cmd.Flags().String("actor", operator(), "who, for the audit")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say whether it can be done")
	storeFlags(cmd)
	return cmd
}

func (r outboxPauseReport) show(t table.Writer) {
	done := r.Action + "d"
	if r.DryRun {
		done = "would be " + done
	}
	t.AppendRow(table.Row{r.what, done})
}
