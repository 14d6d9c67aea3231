package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/outbox"
)

// outboxChange is a command that changes parked events, named or picked by flags.
type outboxChange struct {
	action, done string // retry, retried
	short, long  string
	flags        parkedFlags
	operation    outbox.Operation
	confirm      int
	yes          bool

	// change does it.
	change func(ctx context.Context, o *outbox.Operator, op outbox.Operation) ([]outbox.Change, error)
}

type outboxChangeReport struct {
	Action  string              `json:"action"`
	Count   int                 `json:"count"`   // changed, or would be
	Failed  int                 `json:"failed"`  // named, and could not be
	Skipped int                 `json:"skipped"` // picked by flags, and left as they are
	DryRun  bool                `json:"dry_run"`
	Events  []outboxChangeEvent `json:"events"`

	done string
}

type outboxChangeEvent struct {
	EventID     string              `json:"event_id"`
	State       string              `json:"state"`
	Differences []outbox.Difference `json:"differences"`
	Error       string              `json:"error"`
}

const changeHelp = `

The events are named, or picked by flags: then first --dry-run, and --confirm with the count of that, or --yes. What is
picked by flags and can not be changed like this is left as it is. It happens in one transaction, with who and why in the
audit. Exit code 4: only some of the named events, 5: no such event, 6: not in its state, or not as many as confirmed.`

func (c *outboxChange) command(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   c.action + " [EVENT_ID...]",
		Short: c.short,
		Long:  c.long + changeHelp,
	}
	cmd.RunE = a.operate(func(ctx context.Context, o *outbox.Operator, args []string) error {
		op, err := c.read(cmd, args)
		if err != nil {
			return err
		}
		changes, err := c.change(ctx, o, op)
		if err != nil {
			return err
		}
		report, err := c.report(op, changes)
		return errors.Join(err, a.document(report, report.show))
	})
	return cmd
}

// define adds the flags, after those of the command itself.
func (c *outboxChange) define(cmd *cobra.Command) {
	c.flags.define(cmd, 0)
	flags := cmd.Flags()
	flags.StringVar(&c.operation.Reason, "reason", "", "why, for the audit")
	flags.String("actor", operator(), "who, for the audit")
	flags.BoolVar(&c.operation.DryRun, "dry-run", false, "only say what would change")
	flags.IntVar(&c.confirm, "confirm", 0, "do it if this is the number of events that change")
	flags.BoolVar(&c.yes, "yes", false, "do it whatever their number")
	storeFlags(cmd)
}

// read makes the operation the command line asks for.
func (c *outboxChange) read(cmd *cobra.Command, args []string) (outbox.Operation, error) {
	picked := false
	for _, name := range narrowing {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && (name != "owner" || c.action != "assign") {
			picked = true
		}
	}
	confirmed := cmd.Flags().Changed("confirm")
	op := c.operation
	switch {
	case len(args) > 0 && picked:
		return op, usage{errors.New("either events are named, or they are picked by flags")}
	case len(args) == 0 && !picked:
		return op, usage{errors.New("which events? Name them, or pick them by --state, --topic, --aggregate and others")}
	case len(args) == 0 && !op.DryRun && !confirmed && !c.yes:
		return op, usage{errors.New("several events may change: see with --dry-run, then say --confirm N or --yes")}
	case confirmed && c.yes:
		return op, usage{errors.New("--confirm and --yes exclude each other")}
	}
	if err := c.flags.read(); err != nil {
		return op, err
	}
	if len(args) > 0 {
		op.EventIDs = args
	}
	op.Matching = c.flags.filter
	if confirmed {
		op.Expect = &c.confirm
	}
	return op, nil
}

func (c *outboxChange) report(op outbox.Operation, changes []outbox.Change) (outboxChangeReport, error) {
	report := outboxChangeReport{Action: c.action, DryRun: op.DryRun, Events: []outboxChangeEvent{}, done: c.done}
	var errs []error
	for _, change := range changes {
		e := outboxChangeEvent{EventID: change.EventID, State: change.State, Differences: change.Differences}
		if e.Differences == nil {
			e.Differences = []outbox.Difference{}
		}
		switch {
		case change.Err == nil:
			report.Count++
		case op.EventIDs == nil:
			e.Error = change.Err.Error()
			report.Skipped++
		default:
			e.Error = change.Err.Error()
			report.Failed++
			errs = append(errs, fmt.Errorf("event %s: %w", change.EventID, change.Err))
		}
		report.Events = append(report.Events, e)
	}
	if report.Count > 0 && len(errs) > 0 {
		errs = append([]error{errPartly}, errs...)
	}
	return report, errors.Join(errs...)
}

func (r outboxChangeReport) show(t table.Writer) {
	t.AppendHeader(table.Row{"event_id", "state", "change"})
	for _, e := range r.Events {
		lines := make([]string, len(e.Differences))
		for n, d := range e.Differences {
			lines[n] = fmt.Sprintf("%s: %s → %s", d.Field, orNothing(d.Before), orNothing(d.After))
		}
		if e.Error != "" {
			lines = []string{e.Error}
		}
		t.AppendRow(table.Row{e.EventID, e.State, strings.Join(lines, "\n")})
	}
	done := r.done
	if r.DryRun {
		done = "would be " + done
	}
	rest := ""
	if r.Failed+r.Skipped > 0 {
		rest = fmt.Sprintf("%d not", r.Failed+r.Skipped)
	}
	t.AppendFooter(table.Row{fmt.Sprintf("%d %s", r.Count, done), rest})
}

func orNothing(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}
