package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/config"
	"github.com/millrace-go/millrace/outbox"
)

func newOutbox(a *app) *cobra.Command {
	return newGroup("outbox", "Look at the outbox and at what is parked there, and change what becomes of it",
		newOutboxStats(a), newOutboxList(a), newOutboxShow(a), newOutboxRetry(a), newOutboxEdit(a), newOutboxSkip(a),
		newOutboxDiscard(a), newOutboxAssign(a), newOutboxPause(a), newOutboxResume(a))
}

// operate makes the RunE of a command on the outbox. Its --actor, if it has one, is who it acts for.
func (a *app) operate(f func(ctx context.Context, o *outbox.Operator, args []string) error) func(*cobra.Command, []string) error {
	return a.run(func(cmd *cobra.Command, args []string) error {
		a.resume = "Run it again; what it does happens wholly or not at all."
		operating := outbox.OperatorConfig{}
		if actor := cmd.Flags().Lookup("actor"); actor != nil {
			if operating.Actor = actor.Value.String(); operating.Actor == "" {
				return usage{errors.New("--actor is missing")}
			}
		}
		n := need{postgres: true, tables: true}
		return a.withDatabase(cmd, n, func(ctx context.Context, db *sql.DB, c config.Config, _ *services) error {
			operating.Schema = c.Schema
			o, err := outbox.NewOperator(db, operating)
			if err != nil {
				return usage{err}
			}
			return f(ctx, o, args)
		})
	})
}

// storeFlags are for commands that need nothing but the database.
func storeFlags(cmd *cobra.Command) {
	outputFlags(cmd)
	databaseFlags(cmd)
	stateFlags(cmd)
}

// parkedFlags pick parked events.
type parkedFlags struct {
	filter    outbox.ParkedFilter
	aggregate string
}

// narrowing are the flags that pick some events rather than all.
var narrowing = []string{"state", "topic", "aggregate", "owner", "error-class", "older-than"}

// define adds the flags to a command. One that has another --owner does without that.
func (p *parkedFlags) define(cmd *cobra.Command, limit int) {
	flags := cmd.Flags()
	flags.StringVar(&p.filter.State, "state", "", "only scheduled, retrying, blocked, quarantined or discarded ones")
	flags.StringVar(&p.filter.Topic, "topic", "", "only of this topic")
	flags.StringVar(&p.aggregate, "aggregate", "", "only of this aggregate, TYPE/ID")
	flags.StringVar(&p.filter.ErrorClass, "error-class", "", "only with this error class")
	flags.DurationVar(&p.filter.OlderThan, "older-than", 0, "only what has been parked for so long")
	flags.IntVar(&p.filter.Limit, "limit", limit, fmt.Sprintf("so many at most, the longest parked first; at most %d", outbox.MaxParked))
	if flags.Lookup("owner") == nil {
		flags.StringVar(&p.filter.Owner, "owner", "", "only of this owner")
	}
}

// read completes the filter from the flags.
func (p *parkedFlags) read() error {
	if p.aggregate != "" {
		var err error
		if p.filter.AggregateType, p.filter.AggregateID, err = aggregate(p.aggregate); err != nil {
			return err
		}
	}
	if err := p.filter.Validate(); err != nil {
		return usage{err}
	}
	return nil
}

// aggregate takes TYPE/ID apart. A slash in the id is part of it.
func aggregate(s string) (aggregateType, id string, err error) {
	aggregateType, id, _ = strings.Cut(s, "/")
	if aggregateType == "" || id == "" {
		return "", "", usage{fmt.Errorf("--aggregate %q is not TYPE/ID", s)}
	}
	return aggregateType, id, nil
}
