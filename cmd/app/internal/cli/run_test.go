package cli_test

import (
	"context"
	"database/sql"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/migrations"
	"github.com/millrace-go/millrace/outbox"
)

// relay is a running relay process.
type relay struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  string // its file
	base string
}

var listening = regexp.MustCompile(`listen=(\S+)`)

func startRelay(t *testing.T, dsn string) *relay {
	t.Helper()
	r := &relay{t: t, log: t.TempDir() + "/log"}
	log, err := os.Create(r.log)
	require.NoError(t, err)
	r.cmd = command(t, millrace, append(kafkaEnvironment(t), "MILLRACE_DATABASE_URL="+dsn), "run", "--listen", "127.0.0.1:0")
	r.cmd.Stdout, r.cmd.Stderr = log, log
	require.NoError(t, r.cmd.Start())
	require.NoError(t, log.Close())
	require.Eventually(t, func() bool {
		found := listening.FindStringSubmatch(r.text())
		if found != nil {
			r.base = "http://" + found[1]
		}
		return found != nil
	}, 20*time.Second, 10*time.Millisecond)
	return r
}

func (r *relay) text() string {
	content, err := os.ReadFile(r.log)
	require.NoError(r.t, err)
	return string(content)
}

func (r *relay) get(path string) (int, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.base+path, nil)
	require.NoError(r.t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(r.t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	require.NoError(r.t, response.Body.Close())
	return response.StatusCode, string(body)
}

func (r *relay) becomes(path string, code int) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		got, _ := r.get(path)
		return got == code
	}, 30*time.Second, 20*time.Millisecond, "%s is not %d: %s", path, code, r.text())
}

func (r *relay) stop(signal syscall.Signal, code int) {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(signal))
	_ = r.cmd.Wait()
	require.Equal(r.t, code, r.cmd.ProcessState.ExitCode(), r.text())
}

func commit(t *testing.T, db *sql.DB, topic string, ids ...string) {
	t.Helper()
	require.NoError(t, outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
		publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := publisher.Publish(topic, event.New("x", []byte("{}"), event.WithID(id))); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestRunRelaysAndTellsHowItIsDoing(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	topic := testkit.Topic(t, 2)
	commit(t, db, topic, "a", "b")
	r := startRelay(t, dsn)
	r.becomes("/livez", http.StatusOK)
	r.becomes("/readyz", http.StatusOK)
	require.Eventually(t, func() bool { return len(testkit.ReadTopic(t, topic)) == 2 }, 20*time.Second, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		_, metrics := r.get("/metrics")
		return strings.Contains(metrics, "\nmillrace_relay_sent_total 2\n") && strings.Contains(metrics, "\nmillrace_outbox_pending 0\n")
	}, 20*time.Second, 20*time.Millisecond)

	// What the broker does not take stays pending, and ages.
	commit(t, db, topic+"-absent", "c", "d", "e")
	require.Eventually(t, func() bool {
		_, metrics := r.get("/metrics")
		return strings.Contains(metrics, "\nmillrace_outbox_pending 3\n") &&
			!strings.Contains(metrics, "\nmillrace_outbox_oldest_pending_seconds 0\n") && strings.Contains(metrics, "\nmillrace_database_up 1\n")
	}, 20*time.Second, 20*time.Millisecond)
	_, metrics := r.get("/metrics")
	for _, name := range []string{"sent", "failed_batches", "fenced", "takeovers", "swept", "late"} {
		require.Contains(t, metrics, "\nmillrace_relay_"+name+"_total ")
	}
	var listening int
	require.NoError(t, db.QueryRowContext(t.Context(), `select count(*) from pg_stat_activity
		where datname = current_database() and application_name = 'millrace wake-up'`).Scan(&listening))
	require.Equal(t, 1, listening)
	code, _ := r.get("/unknown")
	require.Equal(t, http.StatusNotFound, code)
	r.stop(syscall.SIGTERM, 0)
	require.NotContains(t, r.text(), dsn)
}

// A slow look at what is waiting is not a database that is away.
func TestRunTellsASlowDatabaseFromOneThatIsAway(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	r := startRelay(t, dsn)
	r.becomes("/readyz", http.StatusOK)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "lock table millrace.outbox in access exclusive mode")
	require.NoError(t, err)
	_, metrics := r.get("/metrics")
	require.NoError(t, tx.Rollback())
	require.Contains(t, metrics, "\nmillrace_database_up 1\n")
	require.NotContains(t, metrics, "\nmillrace_outbox_pending ")
	r.stop(syscall.SIGTERM, 0)
}

// Whoever stops it while it waits for PostgreSQL has not lost a server.
func TestRunStoppedWhileItStartsEndsCleanly(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGTERM: 0, syscall.SIGINT: 130} {
		silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		cmd := command(t, millrace, kafkaEnvironment(t), "run", "--database-url", "postgres://u@"+silent.Addr().String()+"/d?sslmode=disable")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		conn, err := silent.Accept()
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(signal))
		_ = cmd.Wait()
		require.Equal(t, code, cmd.ProcessState.ExitCode(), stderr.String())
		require.NotContains(t, stderr.String(), "unreachable")
		require.NoError(t, conn.Close())
		require.NoError(t, silent.Close())
	}
}

func TestRunIsNotReadyWithoutItsDatabaseAndComesBack(t *testing.T) {
	server := testkit.StartPostgres(t)
	db := testkit.Open(t, "postgres", server.DSN())
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{Shards: 4}))
	r := startRelay(t, server.DSN())
	r.becomes("/readyz", http.StatusOK)
	testkit.Kill(t, server.PID())
	r.becomes("/readyz", http.StatusServiceUnavailable)
	_, reason := r.get("/readyz")
	require.Contains(t, reason, "PostgreSQL is unreachable")
	r.becomes("/livez", http.StatusOK)
	_, metrics := r.get("/metrics")
	require.Contains(t, metrics, "\nmillrace_database_up 0\n")
	require.Contains(t, metrics, "\nmillrace_relay_sent_total ")
	server = testkit.RestartPostgres(t, server)
	r.becomes("/readyz", http.StatusOK)
	topic := testkit.Topic(t, 1)
	commit(t, testkit.Open(t, "postgres", server.DSN()), topic, "a")
	require.Eventually(t, func() bool { return len(testkit.ReadTopic(t, topic)) == 1 }, 30*time.Second, 20*time.Millisecond)
	r.stop(syscall.SIGINT, 130)
}
