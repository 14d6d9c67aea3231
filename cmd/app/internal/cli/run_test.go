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
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/millrace-go/millrace/cmd/app/internal/cli"
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
	return startRelayOn(t, dsn, "")
}

// startRelayOn starts a relay with other brokers than the test's, unless they are "".
func startRelayOn(t *testing.T, dsn, brokers string) *relay {
	t.Helper()
	r := &relay{t: t, log: t.TempDir() + "/log"}
	log, err := os.Create(r.log)
	require.NoError(t, err)
	args := []string{"run", "--listen", "127.0.0.1:0"}
	if brokers != "" {
		args = append(args, "--kafka-brokers", brokers)
	}
	r.cmd = command(t, millrace, append(kafkaEnvironment(t), "MILLRACE_DATABASE_URL="+dsn), args...)
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
	for _, line := range []string{
		"millrace_kafka_up 1", "millrace_relay_wake_up_connected 1", "millrace_relay_registered 1", "millrace_relay_alive 1",
		"millrace_outbox_live_relays 1", "millrace_outbox_unowned_shards 0", "millrace_relay_acknowledged_total 2",
		"millrace_relay_commit_to_published_seconds_count 2",
	} {
		require.Contains(t, metrics, "\n"+line+"\n")
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

// A topic that is held and an event that is quarantined need a person, and no other process: the rest goes on.
func TestRunIsReadyButDegradedWhileItWorksInPart(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	r := startRelay(t, dsn)
	r.becomes("/readyz", http.StatusOK)
	require.Eventually(t, func() bool {
		_, text := r.get("/readyz")
		return text == "ok\npostgresql: ok\nkafka: ok\nrelay: ok\nwake-up: ok\ntopics: ok\nevents: ok\n"
	}, 20*time.Second, 20*time.Millisecond)
	says := func(part string) {
		t.Helper()
		require.Eventually(t, func() bool {
			code, text := r.get("/readyz")
			return code == http.StatusOK && strings.HasPrefix(text, "degraded: ") && strings.Contains(text, "\n"+part+"\n")
		}, 20*time.Second, 20*time.Millisecond, part)
	}
	missing := testkit.Topic(t, 1) + "-absent"
	commit(t, db, missing, "a")
	says("topics: 1 held")
	require.Eventually(t, func() bool {
		_, metrics := r.get("/metrics")
		return strings.Contains(metrics, `millrace_outbox_topic_held_seconds{reason="unavailable",topic="`+missing+`"}`)
	}, 20*time.Second, 20*time.Millisecond)
	_, err := db.ExecContext(t.Context(), `insert into millrace.outbox_parked (shard, position, event_id, topic, state, blocks)
		values (0, 1, 'q', 'orders', 'quarantined', false)`)
	require.NoError(t, err)
	says("events: some are quarantined")
	r.becomes("/livez", http.StatusOK)
	r.stop(syscall.SIGTERM, 0)
}

// The wake-up connection is a luxury: without it the relay polls.
func TestRunIsReadyButDegradedWithoutItsWakeUps(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	r := startRelay(t, dsn)
	r.becomes("/readyz", http.StatusOK)
	require.Eventually(t, func() bool {
		_, err := db.ExecContext(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and application_name = 'millrace wake-up'`)
		require.NoError(t, err)
		code, text := r.get("/readyz")
		return code == http.StatusOK && strings.HasPrefix(text, "degraded: wake-up: the connection for wake-ups is lost, polling\n")
	}, 20*time.Second, time.Millisecond)
	r.stop(syscall.SIGTERM, 0)
}

// Kafka away is a reason to wait, not to be killed.
func TestRunIsNotReadyWithoutKafkaAndStaysAlive(t *testing.T) {
	_, dsn := testkit.MigratedDatabase(t)
	brokers, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	r := startRelayOn(t, dsn, brokers.ListenAddrs()[0])
	r.becomes("/readyz", http.StatusOK)
	brokers.Close()
	r.becomes("/readyz", http.StatusServiceUnavailable)
	_, text := r.get("/readyz")
	require.Contains(t, text, "not ready: Kafka is unreachable\npostgresql: ok\n")
	r.becomes("/livez", http.StatusOK)
	_, metrics := r.get("/metrics")
	require.Contains(t, metrics, "\nmillrace_kafka_up 0\n")
	r.stop(syscall.SIGTERM, 0)
}

// Whoever connects and says nothing, or little, keeps nobody else from an answer.
func TestSlowClientsDoNotHoldUpHealth(t *testing.T) {
	_, dsn := testkit.MigratedDatabase(t)
	r := startRelay(t, dsn)
	r.becomes("/readyz", http.StatusOK)
	for n := range 200 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.base, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		if n%2 == 0 {
			_, err = conn.Write([]byte("GET /readyz HTTP/1.1\r\nX: "))
			require.NoError(t, err)
		}
	}
	began := time.Now()
	for range 20 {
		for _, path := range []string{"/livez", "/readyz", "/metrics"} {
			code, _ := r.get(path)
			require.Equal(t, http.StatusOK, code, path)
		}
	}
	require.Less(t, time.Since(began), 10*time.Second)
	r.stop(syscall.SIGTERM, 0)
}

func TestConnectionsBeyondTheLimitWaitForAPlace(t *testing.T) {
	address, end, err := cli.Serve(t.Context(), "127.0.0.1:0", http.NotFoundHandler())
	require.NoError(t, err)
	var silent []net.Conn
	for range cli.MaxConnections {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		silent = append(silent, conn)
	}
	answered := make(chan int, 1)
	go func() {
		response, err := http.Get("http://" + address)
		if err != nil {
			answered <- 0
			return
		}
		response.Body.Close()
		answered <- response.StatusCode
	}()
	select {
	case code := <-answered:
		require.Fail(t, "answered", "%d", code)
	case <-time.After(200 * time.Millisecond):
	}
	for _, conn := range silent {
		require.NoError(t, conn.Close())
	}
	require.Equal(t, http.StatusNotFound, <-answered)
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, end())
}
