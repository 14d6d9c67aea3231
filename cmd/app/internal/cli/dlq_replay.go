package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/inbox"
)

type dlqReplayReport struct {
	Consumer string `json:"consumer"`
	EventID  string `json:"event_id"`
	Replayed int    `json:"replayed"`
	Failed   int    `json:"failed"`
	Skipped  int    `json:"skipped"`
	DryRun   bool   `json:"dry_run"`
}

func newDLQReplay(a *app) *cobra.Command {
	var consumer string
	var dryRun bool
	var by inbox.By
	cmd := &cobra.Command{
		Use:   "replay EVENT_ID --reason REASON",
		Short: "Have a dead letter handled again: by its own consumer, with the same event_id and bytes",
		Long: `Has a dead letter handled again, by its own consumer alone, with the same event_id, bytes and headers, as soon as a
process of that consumer looks. Who and why goes into the audit. Exit code 5: no such event, 6: it is not dead, or no
longer.`,
		Args: cobra.ExactArgs(1),
		RunE: a.dlq(func(ctx context.Context, d deadLetters, args []string) error {
			if err := by.Validate(); err != nil {
				return usage{fmt.Errorf("--reason and --actor: %w", err)}
			}
			name, err := d.consumer(ctx, consumer, args[0])
			if err != nil {
				return err
			}
			report := dlqReplayReport{Consumer: name, EventID: args[0], DryRun: dryRun}
			if dryRun {
				err = d.replayable(ctx, name, args[0])
			} else {
				err = d.store.Replay(ctx, name, args[0], by)
			}
			switch {
			case err == nil:
				report.Replayed = 1
			case errors.Is(err, inbox.ErrNotDead):
				report.Skipped = 1
			default:
				report.Failed = 1
			}
			return errors.Join(err, a.document(report, report.show))
		}),
	}
	cmd.Flags().StringVar(&consumer, "consumer", "", "whose; required when several know the event")
	cmd.Flags().StringVar(&by.Reason, "reason", "", "why, for the audit (required)")
	cmd.Flags().StringVar(&by.Actor, "actor", operator(), "who, for the audit")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say whether it would be replayed")
	a.dlqFlags(cmd)
	return cmd
}

func (d deadLetters) replayable(ctx context.Context, consumer, eventID string) error {
	letter, err := d.store.Show(ctx, consumer, eventID)
	if err != nil {
		return err
	}
	if letter.State != "dead" {
		return fmt.Errorf("event %s of %s is %s: %w", eventID, consumer, letter.State, inbox.ErrNotDead)
	}
	return nil
}

func (r dlqReplayReport) show(t table.Writer) {
	what := "replayed"
	switch {
	case r.Skipped > 0:
		what = "not dead"
	case r.Failed > 0:
		what = "failed"
	case r.DryRun:
		what = "would be replayed"
	}
	t.AppendRow(table.Row{r.Consumer, r.EventID, what})
}
