package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/cmd/app/internal/bench"
	"github.com/millrace-go/millrace/config"
)

// benchNote is the part of the help that every measurement has.
const benchNote = `

The database and topics made for it are removed. Compare ratios inside one run: machines vary from moment to moment.`

const benchKafkaNote = benchNote + `
Kafka is a real broker unless brokers are given; the embedded one is a fake and its figures mean nothing.`

func newBench(a *app) *cobra.Command {
	return newGroup("bench", "Measure", newBenchWrite(a), newBenchRelay(a), newBenchHotKey(a), newBenchLatency(a))
}

// benchmark is a command that measures.
type benchmark struct {
	events  int  // by default
	kafka   bool // needs it
	check   func() error
	measure func(ctx context.Context, config bench.Config, s *services) (report, error)
}

// report is what a measurement found.
type report interface {
	show(t table.Writer)
	trouble() error
}

// benchCommand completes a command.
func (a *app) benchCommand(cmd *cobra.Command, b benchmark) *cobra.Command {
	var events int
	cmd.Args = cobra.NoArgs
	cmd.RunE = a.run(func(cmd *cobra.Command, _ []string) error {
		if events < 1 {
			return usage{errors.New("--events: at least 1")}
		}
		if b.check != nil {
			if err := b.check(); err != nil {
				return usage{err}
			}
		}
		a.resume = "Run it again; it begins anew."
		n := need{postgres: true, kafka: b.kafka, start: true}
		return a.withDatabase(cmd, n, func(ctx context.Context, db *sql.DB, c config.Config, s *services) error {
			return a.bench(ctx, db, c, s, events, b)
		})
	})
	cmd.Flags().IntVar(&events, "events", b.events, "number of events")
	outputFlags(cmd)
	settingsFlags(cmd)
	logFlags(cmd)
	cmd.Flags().String("database-url", "", "PostgreSQL to use (MILLRACE_DATABASE_URL); a database is made there and dropped")
	if b.kafka {
		kafkaFlags(cmd, "real")
	}
	ownStateFlags(cmd)
	return cmd
}

func (a *app) bench(ctx context.Context, db *sql.DB, c config.Config, s *services, events int, b benchmark) (err error) {
	log, err := a.logFile("bench.log")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	bar := newProgress(a.stderr)
	config := bench.Config{
		DatabaseURL: c.DatabaseURL, DB: db, Events: events,
		Environment: a.relayEnvironment(c), RelayLog: log, Progress: bar.at,
	}
	if b.kafka {
		if config.Brokers, err = connection(c.Kafka); err != nil {
			return err
		}
		if err := reachBrokers(ctx, config.Brokers); err != nil {
			return err
		}
	}
	r, err := b.measure(ctx, config, s)
	bar.finish()
	if err != nil {
		return fmt.Errorf("%w (more in %s)", err, log.Name())
	}
	if err := a.document(r, r.show); err != nil {
		return err
	}
	if err := r.trouble(); err != nil {
		return fmt.Errorf("bench: %w: %w", errTrouble, err)
	}
	return nil
}

// logFile is a file in the state directory that begins anew.
func (a *app) logFile(name string) (*os.File, error) {
	if err := makeStateDir(a.stateDir); err != nil {
		return nil, err
	}
	path := filepath.Join(a.stateDir, name)
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // the operator names the directory
}
