package cli

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"os/user"
	"strings"

	"github.com/lib/pq"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/config"
	"github.com/millrace-go/millrace/inbox"
)

//go:embed consumers.sql
var consumersSQL string

func newDLQ(a *app) *cobra.Command {
	return newGroup("dlq", "Look at dead letters and have them handled again", newDLQList(a), newDLQShow(a), newDLQReplay(a))
}

// deadLetters is what the dlq commands work on.
type deadLetters struct {
	db     *sql.DB
	store  *inbox.Store
	schema string
}

// dlq makes the RunE of a command on dead letters.
func (a *app) dlq(f func(ctx context.Context, d deadLetters, args []string) error) func(*cobra.Command, []string) error {
	return a.run(func(cmd *cobra.Command, args []string) error {
		a.resume = "Run it again; each replay happens wholly or not at all."
		n := need{postgres: true, tables: true}
		return a.withDatabase(cmd, n, func(ctx context.Context, db *sql.DB, c config.Config, _ *services) error {
			store, err := inbox.NewStore(db, inbox.Config{Schema: c.Schema})
			if err != nil {
				return err
			}
			return f(ctx, deadLetters{db: db, store: store, schema: c.Schema}, args)
		})
	})
}

func (a *app) dlqFlags(cmd *cobra.Command) {
	outputFlags(cmd)
	databaseFlags(cmd)
	stateFlags(cmd)
}

// consumer finds out whose event it is where that was not said.
func (d deadLetters) consumer(ctx context.Context, given, eventID string) (string, error) {
	if given != "" {
		return given, nil
	}
	rows, err := d.db.QueryContext(ctx, strings.ReplaceAll(consumersSQL, "{{schema}}", pq.QuoteIdentifier(d.schema)), eventID)
	if err != nil {
		return "", err
	}
	defer func() { _ = rows.Close() }()
	var consumers []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return "", err
		}
		consumers = append(consumers, name)
	}
	switch {
	case rows.Err() != nil:
		return "", rows.Err()
	case len(consumers) == 0:
		return "", fmt.Errorf("event %s: %w: no consumer has disposed of it", eventID, inbox.ErrNotFound)
	case len(consumers) > 1:
		return "", usage{fmt.Errorf("several consumers know event %s: say --consumer %s", eventID, strings.Join(consumers, ", or "))}
	}
	return consumers[0], nil
}

// operator is who goes into the audit unless --actor says otherwise.
func operator() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}
