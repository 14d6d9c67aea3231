package cli

import (
	"context"
	"fmt"
	"math"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/cmd/app/internal/bench"
)

// writeReport has the figures of the run with most connections in front, and all of them in Runs.
type writeReport struct {
	benchReport
	Runs []writeRun `json:"runs"`
}

// writeRun is one number of connections. The limit is the same transaction with Watermill's publisher.
type writeRun struct {
	Connections     int     `json:"connections"`
	Events          int     `json:"events"`
	Seconds         float64 `json:"seconds"`
	LimitSeconds    float64 `json:"limit_seconds"`
	EventsPerSecond float64 `json:"events_per_second"`
	LimitPerSecond  float64 `json:"limit_per_second"`
	Ratio           float64 `json:"ratio"`
	P50             float64 `json:"p50_ms"`
	P99             float64 `json:"p99_ms"`
	LimitP50        float64 `json:"limit_p50_ms"`
	LimitP99        float64 `json:"limit_p99_ms"`
}

func newBenchWrite(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "write",
		Short: "Measure a transaction with an event next to one with Watermill's SQL publisher",
		Long: `Runs a business transaction, which changes one row by its key and writes one event, with this publisher and with that of
watermill-sql (DefaultPostgreSQLSchema), on 1 and on 16 connections. The two take turns in 5 rounds; the figures are those
of the round in the middle. The ratio is the time of the transactions over their time with Watermill's publisher: less is
better. The fields in front are those of 16 connections. p50_ms and p99_ms are of one transaction. No relay runs: rss_mb,
cpu_seconds and idle_queries_per_second are null. Lost and reordered are counted in the outbox.` + benchNote,
	}
	return a.benchCommand(cmd, benchmark{events: 5000, measure: func(ctx context.Context, config bench.Config, s *services) (report, error) {
		writes, err := bench.Write(ctx, config)
		return newWriteReport(writes, s), err
	}})
}

func newWriteReport(writes []bench.Writes, s *services) writeReport {
	r := writeReport{benchReport: benchReport{Services: demoServices{Postgres: s.postgresSource, Kafka: "not used"}}}
	for _, w := range writes {
		run := writeRun{
			Connections: w.Connections, Events: w.Events,
			Seconds: thousandths(w.Seconds), LimitSeconds: thousandths(w.Stock),
			EventsPerSecond: math.Round(w.EventsPerSecond), LimitPerSecond: math.Round(w.StockPerSecond),
			Ratio: thousandths(w.Ratio()),
			P50:   w.P50Milliseconds, P99: w.P99Milliseconds, LimitP50: w.StockP50Milliseconds, LimitP99: w.StockP99Milliseconds,
		}
		r.Runs = append(r.Runs, run)
		r.Events, r.Seconds, r.EventsPerSecond = run.Events, run.Seconds, run.EventsPerSecond
		r.LimitPerSecond, r.Ratio, r.P50, r.P99 = &run.LimitPerSecond, &run.Ratio, &run.P50, &run.P99
		r.Lost += w.Lost
		r.Reordered += w.Reordered
	}
	return r
}

func (r writeReport) show(t table.Writer) {
	t.AppendHeader(table.Row{"connections", "transactions/s", "with Watermill's", "time ratio", "p50, p99 ms", "with Watermill's"})
	for _, run := range r.Runs {
		t.AppendRow(table.Row{
			run.Connections, run.EventsPerSecond, run.LimitPerSecond, fmt.Sprintf("%.3f", run.Ratio),
			fmt.Sprintf("%.2f, %.2f", run.P50, run.P99), fmt.Sprintf("%.2f, %.2f", run.LimitP50, run.LimitP99),
		})
	}
	r.showCounts(t, "counted in the outbox")
}
