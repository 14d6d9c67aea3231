package service_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/internal/service"
)

func TestPostgresKeepsRowsAndAddressAcrossARestart(t *testing.T) {
	config := service.PostgresConfig{StateDir: stateDir(t), Settings: map[string]string{"work_mem": "5MB"}}
	first := startPostgres(t, config)
	require.Contains(t, first.Source(), "PostgreSQL")
	query(t, first.DSN(), "create table kept as select 42 as id")
	require.NoError(t, first.Stop())
	require.NoError(t, first.Stop(), "a second stop changes nothing")
	require.False(t, service.Alive(first.PID()))

	second := startPostgres(t, first.Config())

	require.Equal(t, first.DSN(), second.DSN())
	require.Equal(t, "42", query(t, second.DSN(), "select id from kept"))
	require.Equal(t, "5MB", query(t, second.DSN(), "show work_mem"))
	require.Equal(t, "on", query(t, second.DSN(), "show fsync"))
	require.Equal(t, "127.0.0.1", query(t, second.DSN(), "show listen_addresses"))
}

func TestKafkaKeepsRecordsAndAddressAcrossARestart(t *testing.T) {
	first := startKafka(t, service.KafkaConfig{StateDir: stateDir(t), Real: realKafka()})
	produce(t, first.Brokers(), "kept", "record")
	require.NoError(t, first.Stop())
	require.NoError(t, first.Stop(), "a second stop changes nothing")
	require.False(t, service.Alive(first.PID()))

	second := startKafka(t, first.Config())

	require.Equal(t, first.Brokers(), second.Brokers())
	require.Equal(t, "record", consumeOne(t, second.Brokers(), "kept"))
}

func TestAKilledParentLeavesNoServerBehind(t *testing.T) {
	dir := stateDir(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+dir)
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(t, err)
	var servers started
	require.NoError(t, json.Unmarshal(line, &servers))
	require.Len(t, servers.PIDs, 2)
	for _, pid := range servers.PIDs {
		require.True(t, service.Alive(pid))
	}

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())

	// The next start does not have to wait for that: it waits for the state directory itself.
	again := startPostgres(t, service.PostgresConfig{StateDir: dir})
	require.NoError(t, again.Stop())
	for _, pid := range servers.PIDs {
		require.Eventually(t, func() bool { return !service.Alive(pid) }, 30*time.Second, 10*time.Millisecond)
	}
}

func TestTemporaryStateIsRemovedWithTheServer(t *testing.T) {
	postgresDir, kafkaDir := stateDir(t), stateDir(t)
	postgres := startPostgres(t, service.PostgresConfig{StateDir: postgresDir, Temporary: true})
	kafka := startKafka(t, service.KafkaConfig{StateDir: kafkaDir, Real: realKafka(), Temporary: true})

	require.NoError(t, postgres.Stop())
	require.NoError(t, kafka.Stop())

	require.NoDirExists(t, postgresDir)
	require.NoDirExists(t, kafkaDir)
}

func TestAFailedStartQuotesTheServersLog(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	_, err := service.StartPostgres(ctx, service.PostgresConfig{
		StateDir: stateDir(t),
		Settings: map[string]string{"max_connections": "many"},
	})
	require.ErrorContains(t, err, "service: start PostgreSQL: ")
	require.ErrorContains(t, err, `"max_connections"`)
}

func TestAnEndedContextStopsWhatIsStarting(t *testing.T) {
	dir := stateDir(t)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := service.StartPostgres(ctx, service.PostgresConfig{StateDir: dir})
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, startPostgres(t, service.PostgresConfig{StateDir: dir}).Stop(), "nothing holds the directory")
}

func TestDataOfAnotherVersionIsNeverReplaced(t *testing.T) {
	dir := stateDir(t)
	first := startPostgres(t, service.PostgresConfig{StateDir: dir})
	major := query(t, first.DSN(), "select current_setting('server_version_num')::int / 10000")
	query(t, first.DSN(), "create table kept as select 42 as id")
	require.NoError(t, first.Stop())
	other := "14"
	if major == other {
		other = "18"
	}

	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	_, err := service.StartPostgres(ctx, service.PostgresConfig{StateDir: dir, Version: other})
	require.ErrorContains(t, err, "holds data of PostgreSQL "+major)

	again := startPostgres(t, service.PostgresConfig{StateDir: dir})
	require.Equal(t, "42", query(t, again.DSN(), "select id from kept"))
}

func TestBadConfigurationIsNamedBeforeAnythingStarts(t *testing.T) {
	_, err := service.StartPostgres(t.Context(), service.PostgresConfig{
		Version:  "9",
		Settings: map[string]string{"work_mem": "`reboot`"},
	})
	require.ErrorContains(t, err, "Version")
	require.ErrorContains(t, err, "Settings: work_mem")
	_, err = service.StartKafka(t.Context(), service.KafkaConfig{Settings: map[string]string{"a=b": ""}})
	require.ErrorContains(t, err, "Settings")
}

func startPostgres(t *testing.T, config service.PostgresConfig) *service.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := service.StartPostgres(ctx, config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop() })
	return server
}

func startKafka(t *testing.T, config service.KafkaConfig) *service.Kafka {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	broker, err := service.StartKafka(ctx, config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = broker.Stop() })
	return broker
}

// stateDir is a directory that the user PostgreSQL runs as can enter, unlike t.TempDir, when the tests run as root.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "millrace-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// query returns the first column of the first row, or "" when there is none.
func query(t *testing.T, dsn, statement string) string {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), statement)
	require.NoError(t, err)
	defer rows.Close()
	var value string
	if rows.Next() {
		require.NoError(t, rows.Scan(&value))
	}
	require.NoError(t, rows.Err())
	return value
}

func produce(t *testing.T, brokers []string, topic, value string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation())
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr())
}

func consumeOne(t *testing.T, brokers []string, topic string) string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fetches := client.PollFetches(ctx)
	require.NoError(t, fetches.Err())
	require.Equal(t, 1, fetches.NumRecords())
	return string(fetches.Records()[0].Value)
}
