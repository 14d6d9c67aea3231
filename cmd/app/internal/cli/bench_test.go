package cli_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// What every measurement reports.
var benchFields = []string{
	"cpu_seconds", "duplicated", "events", "events_per_second", "idle_queries_per_second", "limit_per_second", "lost", "p50_ms",
	"p99_ms", "ratio", "reordered", "rss_mb", "seconds", "services", "services.kafka", "services.postgres",
}

// benchmark runs a measurement whose figures mean nothing here; that they are all there, and that everything is cleaned up,
// does. It returns the report.
func benchmark(t *testing.T, kafka bool, moreFields []string, args ...string) map[string]any {
	t.Helper()
	_, dsn := testkit.Database(t)
	environment := []string{"MILLRACE_DATABASE_URL=" + dsn}
	if kafka {
		environment = append(environment, kafkaEnvironment(t)...)
	}
	args = append([]string{"bench"}, append(args, "--json", "--state-dir", t.TempDir())...)
	done := run(t, command(t, millrace, environment, args...))
	require.Zero(t, done.code, done.stderr)
	require.Equal(t, slices.Sorted(slices.Values(append(moreFields, benchFields...))), done.names(t))
	var report map[string]any
	done.document(t, &report)
	require.Zero(t, report["lost"])
	require.Zero(t, report["reordered"])
	return report
}

func TestBench(t *testing.T) {
	t.Parallel() // they are idle for most of the time, to measure just that
	t.Run("reports", testBenchReports)
	var left int
	db := testkit.DB(t)
	require.NoError(t, db.QueryRowContext(t.Context(), "select count(*) from pg_database where datname like 'millrace_bench_%'").Scan(&left))
	require.Zero(t, left)
}

func testBenchReports(t *testing.T) {
	relayFields := []string{"dead_tuples", "relay_cpu_us_per_event"}
	positive := func(t *testing.T, report map[string]any, names ...string) {
		t.Helper()
		for _, name := range names {
			require.Greater(t, report[name], 0.0, name)
		}
	}
	t.Run("relay", func(t *testing.T) {
		t.Parallel()
		report := benchmark(t, true, relayFields, "relay", "--events", "3000", "--hold-transaction")
		positive(t, report, "cpu_seconds", "rss_mb", "p50_ms", "p99_ms", "idle_queries_per_second", "relay_cpu_us_per_event")
		require.InDelta(t, 3000, report["events"], 0)
		require.Zero(t, report["dead_tuples"])
	})
	t.Run("relay sustained", func(t *testing.T) {
		t.Parallel()
		report := benchmark(t, true, append([]string{
			"sustained", "sustained.asked_per_second", "sustained.flat", "sustained.final_backlog", "sustained.max_backlog",
			"sustained.written_per_second",
		}, relayFields...), "relay", "--events", "500", "--sustained", "2s", "--rate", "200")
		positive(t, report, "events", "events_per_second", "cpu_seconds")
		require.InDelta(t, 200, report["sustained"].(map[string]any)["written_per_second"], 50)
	})
	t.Run("hot key", func(t *testing.T) {
		t.Parallel()
		report := benchmark(t, true, relayFields, "hot-key", "--events", "500")
		positive(t, report, "cpu_seconds", "rss_mb", "p50_ms", "idle_queries_per_second")
		require.InDelta(t, 500, report["events"], 0)
	})
	t.Run("latency", func(t *testing.T) {
		t.Parallel()
		report := benchmark(t, true, relayFields, "latency", "--events", "50", "--rate", "50")
		positive(t, report, "events_per_second", "cpu_seconds", "rss_mb", "p50_ms", "p99_ms", "idle_queries_per_second")
		for _, name := range []string{"limit_per_second", "ratio", "relay_cpu_us_per_event"} {
			require.Nil(t, report[name], name)
		}
	})
	t.Run("write", func(t *testing.T) {
		t.Parallel()
		var fields []string
		for _, name := range []string{
			"connections", "events", "seconds", "limit_seconds", "events_per_second", "limit_per_second", "ratio",
			"p50_ms", "p99_ms", "limit_p50_ms", "limit_p99_ms",
		} {
			fields = append(fields, "runs[]."+name)
		}
		report := benchmark(t, false, append(fields, "runs"), "write", "--events", "500")
		positive(t, report, "events_per_second", "limit_per_second", "ratio", "p50_ms", "p99_ms")
		require.Nil(t, report["cpu_seconds"])
		var connections []any
		for _, one := range report["runs"].([]any) {
			run := one.(map[string]any)
			connections = append(connections, run["connections"])
			positive(t, run, "ratio", "seconds", "limit_seconds")
		}
		require.Equal(t, []any{1.0, 16.0}, connections)
	})
}

func TestBenchRefusesWhatItCanNotMeasure(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"relay", "--events", "0"}, {"relay", "--rate", "5"}, {"relay", "--sustained", "10ms"}, {"relay", "--sustained", "-1s"},
		{"relay", "--sustained", "2s", "--rate", "-1"}, {"latency", "--rate", "0"}, {"latency", "--rate", "NaN"}, {"write", "--rate", "1"},
	} {
		done := run(t, command(t, millrace, nil, append([]string{"bench"}, append(args, "--state-dir", t.TempDir())...)...))
		require.Equal(t, 2, done.code, "%v: %s", args, done.stderr)
	}
}
