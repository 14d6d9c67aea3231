package testkit

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/service"
)

// StartPostgres starts a server of the test's own, for tests that stop or kill it. Settings are "name=value". It is
// stopped and its data removed when the test ends.
func StartPostgres(t testing.TB, settings ...string) *service.Postgres {
	t.Helper()
	return startPostgres(t, service.PostgresConfig{
		StateDir: StateDir(t),
		Version:  os.Getenv("MILLRACE_TEST_POSTGRES_VERSION"),
		Settings: pairs(t, settings),
	})
}

// RestartPostgres starts a stopped or killed server again, on the same data and, as long as its port is free, under
// the same DSN.
func RestartPostgres(t testing.TB, stopped *service.Postgres) *service.Postgres {
	t.Helper()
	require.NoError(t, stopped.Stop())
	return startPostgres(t, stopped.Config())
}

func startPostgres(t testing.TB, config service.PostgresConfig) *service.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := service.StartPostgres(ctx, config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	return server
}

// StartKafka starts a broker of the test's own, for tests that stop or kill it; the environment chooses its kind.
// Settings are "name=value". It is stopped and its data removed when the test ends.
func StartKafka(t testing.TB, settings ...string) *service.Kafka {
	t.Helper()
	real, err := realKafka()
	require.NoError(t, err)
	return startKafka(t, service.KafkaConfig{StateDir: StateDir(t), Real: real, Settings: pairs(t, settings)})
}

// RestartKafka starts a stopped or killed broker again, on the same data and, as long as its port is free, under the
// same address.
func RestartKafka(t testing.TB, stopped *service.Kafka) *service.Kafka {
	t.Helper()
	require.NoError(t, stopped.Stop())
	return startKafka(t, stopped.Config())
}

func startKafka(t testing.TB, config service.KafkaConfig) *service.Kafka {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	broker, err := service.StartKafka(ctx, config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, broker.Stop()) })
	return broker
}

// StateDir returns a directory for the data of services, removed when the test ends. Unlike t.TempDir it can be entered
// by the user PostgreSQL runs as when the tests run as root.
func StateDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "millrace-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// Kill ends a process the way a power cut does, with SIGKILL, and waits until it is gone.
func Kill(t testing.TB, pid int) {
	t.Helper()
	require.Positive(t, pid)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !service.Alive(pid) }, 10*time.Second, 5*time.Millisecond,
		"process %d survived SIGKILL", pid)
}

func pairs(t testing.TB, settings []string) map[string]string {
	t.Helper()
	byName := map[string]string{}
	for _, setting := range settings {
		name, value, found := strings.Cut(setting, "=")
		require.True(t, found, "setting %q is not name=value", setting)
		byName[name] = value
	}
	return byName
}
