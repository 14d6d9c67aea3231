package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/config"
	"github.com/millrace-go/millrace/migrations"
)

func newMigrate(a *app) *cobra.Command {
	return newGroup("migrate", "Create and change the tables",
		newMigrateUp(a), newMigrateDown(a), newMigrateStatus(a), newMigrateSQL(a))
}

type migrateReport struct {
	Schema     string            `json:"schema"`
	Version    int64             `json:"version"`
	Pending    int               `json:"pending"`
	Migrations []migrationReport `json:"migrations"`
	DryRun     bool              `json:"dry_run"`
}

type migrationReport struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name"`
	Applied   bool       `json:"applied"`
	AppliedAt *time.Time `json:"applied_at"`
}

func newMigrateUp(a *app) *cobra.Command {
	var shards int
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Apply what is pending",
		Long: `Applies what is pending. Several processes may do it at once; one works, the others wait. It wants a direct connection
to PostgreSQL, not a transaction-mode pooler.`,
		Args: cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			if err := (migrations.Config{Shards: shards}).Validate(); err != nil {
				return usage{fmt.Errorf("--shards: %w", err)}
			}
			return a.migrate(cmd, dryRun, func(ctx context.Context, db *sql.DB, c config.Config) error {
				return migrations.Up(ctx, db, migrations.Config{Schema: c.Schema, Shards: shards})
			})
		}),
	}
	cmd.Flags().IntVar(&shards, "shards", 0, "shards of a new outbox, fixed from then on (default 64)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what is pending")
	a.migrateFlags(cmd)
	return cmd
}

func newMigrateDown(a *app) *cobra.Command {
	var dryRun, yes bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Undo the newest migration, WITH ALL EVENTS IN ITS TABLES",
		Args:  cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			if !yes && !dryRun {
				return usage{errors.New("migrate down drops tables with all events in them, sent or not: say --yes, or --dry-run to see the state")}
			}
			return a.migrate(cmd, dryRun, func(ctx context.Context, db *sql.DB, c config.Config) error {
				return migrations.Down(ctx, db, migrations.Config{Schema: c.Schema})
			})
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "drop the tables of the newest migration")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show the state")
	a.migrateFlags(cmd)
	return cmd
}

func newMigrateStatus(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which migrations are applied",
		Args:  cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			return a.migrate(cmd, false, func(context.Context, *sql.DB, config.Config) error { return nil })
		}),
	}
	a.migrateFlags(cmd)
	return cmd
}

func newMigrateSQL(a *app) *cobra.Command {
	var shards int
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print all migrations as one script",
		Long: `Prints what "up" does on an empty database, for teams that apply DDL with a tool of their own. Run it once, in one
transaction: psql -1 -v ON_ERROR_STOP=1 -f FILE`,
		Args: cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.load(cmd)
			if err != nil {
				return err
			}
			script, err := migrations.SQL(migrations.Config{Schema: c.Schema, Shards: shards})
			if err != nil {
				return usage{err}
			}
			_, err = io.WriteString(a.stdout, script)
			return err
		}),
	}
	cmd.Flags().IntVar(&shards, "shards", 0, "shards of the outbox, fixed from then on (default 64)")
	settingsFlags(cmd)
	cmd.Flags().String("schema", "", "schema of the tables (MILLRACE_SCHEMA), default millrace")
	return cmd
}

func (a *app) migrateFlags(cmd *cobra.Command) {
	outputFlags(cmd)
	databaseFlags(cmd)
	stateFlags(cmd)
}

// migrate changes the schema, unless it is a dry run, and then shows its state.
func (a *app) migrate(cmd *cobra.Command, dryRun bool, change func(context.Context, *sql.DB, config.Config) error) error {
	a.resume = "Run it again; a migration happens wholly or not at all."
	return a.withDatabase(cmd, need{postgres: true}, func(ctx context.Context, db *sql.DB, c config.Config, _ *services) error {
		if !dryRun {
			if err := change(ctx, db, c); err != nil {
				return err
			}
		}
		status, err := migrations.Status(ctx, db, migrations.Config{Schema: c.Schema})
		if err != nil {
			return err
		}
		report := newMigrateReport(c.Schema, status)
		report.DryRun = dryRun
		return a.document(report, report.show)
	})
}

func newMigrateReport(schema string, status []migrations.Migration) migrateReport {
	r := migrateReport{Schema: schema, Migrations: []migrationReport{}}
	r.Version, r.Pending = versions(status)
	for _, m := range status {
		one := migrationReport{Version: m.Version, Name: m.Name, Applied: m.Applied}
		if m.Applied {
			at := m.AppliedAt.UTC()
			one.AppliedAt = &at
		}
		r.Migrations = append(r.Migrations, one)
	}
	return r
}

func (r migrateReport) show(t table.Writer) {
	t.AppendHeader(table.Row{"version", "name", "applied"})
	for _, m := range r.Migrations {
		applied := "pending"
		if m.AppliedAt != nil {
			applied = m.AppliedAt.Format(time.RFC3339)
		}
		t.AppendRow(table.Row{m.Version, m.Name, applied})
	}
	t.AppendFooter(table.Row{"", "schema " + r.Schema, fmt.Sprintf("%d pending", r.Pending)})
}
