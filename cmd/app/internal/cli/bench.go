package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/cmd/app/internal/bench"
	"github.com/millrace-go/millrace/config"
)

// benchReport is what was measured. The field names are a contract.
type benchReport struct {
	Services             demoServices `json:"services"`
	Events               int          `json:"events"`
	Seconds              float64      `json:"seconds"`
	EventsPerSecond      float64      `json:"events_per_second"`
	LimitPerSecond       float64      `json:"limit_per_second"`
	Ratio                float64      `json:"ratio"`
	P50                  float64      `json:"p50_ms"`
	P99                  float64      `json:"p99_ms"`
	RSSMiB               float64      `json:"rss_mb"`
	CPUSeconds           float64      `json:"cpu_seconds"`
	IdleQueriesPerSecond float64      `json:"idle_queries_per_second"`
	Lost                 int          `json:"lost"`
	Duplicated           int          `json:"duplicated"`
	Reordered            int          `json:"reordered"`
}

func newBench(a *app) *cobra.Command { return newGroup("bench", "Measure", newBenchRelay(a)) }

func newBenchRelay(a *app) *cobra.Command {
	var events int
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Measure the relay next to a plain producer",
		Long: `Writes events of 300 bytes on 1,000 aggregates to an outbox of its own, then measures, in the same run: a plain producer
with the same records (acks=all, idempotent, asynchronous), the relay as a process of its own, the time from commit to
consumer at 10 events a second, and the queries of an idle relay. Everything is read back and counted. The database and
topics made for it are removed. Compare ratios inside one run: machines vary from moment to moment.

Kafka is a real broker unless brokers are given; the embedded one is a fake and its figures mean nothing.`,
		Args: cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			if events < 1 {
				return usage{errors.New("--events: at least 1")}
			}
			a.resume = "Run it again; it begins anew."
			n := need{postgres: true, kafka: true, start: true}
			return a.withDatabase(cmd, n, func(ctx context.Context, db *sql.DB, c config.Config, s *services) error {
				return a.benchRelay(ctx, db, c, s, events)
			})
		}),
	}
	cmd.Flags().IntVar(&events, "events", 20_000, "number of events")
	outputFlags(cmd)
	settingsFlags(cmd)
	logFlags(cmd)
	cmd.Flags().String("database-url", "", "PostgreSQL to use (MILLRACE_DATABASE_URL); a database is made there and dropped")
	kafkaFlags(cmd, "real")
	ownStateFlags(cmd)
	return cmd
}

func (a *app) benchRelay(ctx context.Context, db *sql.DB, c config.Config, s *services, events int) (err error) {
	brokers, err := connection(c.Kafka)
	if err != nil {
		return err
	}
	if err := reachBrokers(ctx, brokers); err != nil {
		return err
	}
	log, err := a.logFile("bench.log")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	bar := newProgress(a.stderr)
	figures, err := bench.Relay(ctx, bench.Config{
		DatabaseURL: c.DatabaseURL, DB: db, Brokers: brokers, Events: events,
		Environment: a.relayEnvironment(c), RelayLog: log, Progress: bar.at,
	})
	bar.finish()
	if err != nil {
		return fmt.Errorf("%w (more in %s)", err, log.Name())
	}
	report := newBenchReport(figures, s)
	if err := a.document(report, report.show); err != nil {
		return err
	}
	if report.Lost > 0 || report.Reordered > 0 {
		return fmt.Errorf("bench: %w: events lost or out of order", errTrouble)
	}
	return nil
}

func newBenchReport(f bench.Figures, s *services) benchReport {
	r := benchReport{
		Services: demoServices{Postgres: s.postgresSource, Kafka: s.kafkaSource},
		Events:   f.Events, Seconds: f.Seconds,
		EventsPerSecond: math.Round(f.EventsPerSecond), LimitPerSecond: math.Round(f.LimitPerSecond),
		P50: f.P50Milliseconds, P99: f.P99Milliseconds,
		RSSMiB: tenths(f.RSSMiB), CPUSeconds: f.CPUSeconds, IdleQueriesPerSecond: tenths(f.IdleQueriesPerSecond),
		Lost: f.Lost, Duplicated: f.Duplicated, Reordered: f.Reordered,
	}
	if f.LimitPerSecond > 0 {
		r.Ratio = math.Round(1000*f.EventsPerSecond/f.LimitPerSecond) / 1000
	}
	return r
}

func tenths(x float64) float64 { return math.Round(10*x) / 10 }

func (r benchReport) show(t table.Writer) {
	t.AppendRows([]table.Row{
		{"events", r.Events, "300 bytes of JSON, 1,000 aggregates, 6 partitions"},
		{"events/s", r.EventsPerSecond, fmt.Sprintf("from first to last append, in %.3f s", r.Seconds)},
		{"limit/s", r.LimitPerSecond, "a plain producer, same records, same run"},
		{"ratio", r.Ratio, ""},
		{"p50, p99", fmt.Sprintf("%.1f, %.1f ms", r.P50, r.P99), "from commit to a consumer, 10 events a second"},
		{"memory", fmt.Sprintf("%.1f MiB", r.RSSMiB), "largest resident set of the relay process"},
		{"CPU", fmt.Sprintf("%.2f s", r.CPUSeconds), fmt.Sprintf("of the relay process, %.0f µs an event", 1e6*r.CPUSeconds/float64(r.Events))},
		{"idle queries/s", r.IdleQueriesPerSecond, ""},
	})
	t.AppendSeparator()
	t.AppendRows([]table.Row{{"lost", verdict(r.Lost), "read back"}, {"duplicated", r.Duplicated, ""}, {"out of order", verdict(r.Reordered), ""}})
}

// logFile is a file in the state directory that begins anew.
func (a *app) logFile(name string) (*os.File, error) {
	if err := makeStateDir(a.stateDir); err != nil {
		return nil, err
	}
	path := filepath.Join(a.stateDir, name)
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // the operator names the directory
}
