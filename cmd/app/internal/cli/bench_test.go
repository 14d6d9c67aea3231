package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// Its figures mean nothing here; that they are all there, and that everything is cleaned up, does.
func TestBenchRelayReports(t *testing.T) {
	t.Parallel() // it is idle for most of the time, to measure just that
	db, dsn := testkit.Database(t)
	environment := append(kafkaEnvironment(t), "MILLRACE_DATABASE_URL="+dsn)
	done := run(t, command(t, millrace, environment, "bench", "relay", "--events", "3000", "--json", "--state-dir", t.TempDir()))
	require.Zero(t, done.code, done.stderr)
	require.Equal(t, []string{
		"cpu_seconds", "duplicated", "events", "events_per_second", "idle_queries_per_second", "limit_per_second", "lost", "p50_ms",
		"p99_ms", "ratio", "reordered", "rss_mb", "seconds", "services", "services.kafka", "services.postgres",
	}, done.names(t))
	var report map[string]any
	done.document(t, &report)
	for _, name := range []string{"cpu_seconds", "rss_mb", "p50_ms", "p99_ms", "idle_queries_per_second"} {
		require.Greater(t, report[name], 0.0, name)
	}
	require.InDelta(t, 3000, report["events"], 0)
	require.Zero(t, report["lost"])
	require.Zero(t, report["reordered"])
	var left int
	require.NoError(t, db.QueryRowContext(t.Context(), "select count(*) from pg_database where datname like 'millrace_bench_%'").Scan(&left))
	require.Zero(t, left)
}
