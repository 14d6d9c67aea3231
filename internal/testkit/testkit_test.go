package testkit_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDatabasesOfTwoTestsShareNothing(t *testing.T) {
	first, second := testkit.DB(t), testkit.DB(t)
	_, err := first.Exec("create table t (id int)")
	require.NoError(t, err)
	var tables int
	require.NoError(t, second.QueryRow("select count(*) from pg_tables where schemaname = 'public'").Scan(&tables))
	require.Zero(t, tables)
}

func TestAMigratedDatabaseHasTheSchema(t *testing.T) {
	var schemas int
	require.NoError(t, testkit.Migrated(t).QueryRow("select count(*) from pg_namespace where nspname = 'millrace'").Scan(&schemas))
	require.Equal(t, 1, schemas)
}

func TestBothDriversOpenTheDSN(t *testing.T) {
	dsn := testkit.DSN(t)
	for _, driver := range []string{"postgres", "pgx"} {
		var encoding string
		require.NoError(t, testkit.Open(t, driver, dsn).QueryRow("show server_encoding").Scan(&encoding))
		require.Equal(t, "UTF8", encoding)
	}
}

func TestADatabaseIsDroppedUnderOpenTransactions(t *testing.T) {
	var dsn string
	t.Run("leaves a transaction open", func(t *testing.T) {
		var left *sql.Tx
		t.Cleanup(func() { _ = left.Rollback() }) // runs last, when the server has cut the connection
		dsn = testkit.DSN(t)
		var err error
		left, err = testkit.Open(t, "postgres", dsn).Begin()
		require.NoError(t, err)
	})
	require.Error(t, testkit.Open(t, "postgres", dsn).Ping())
}

func TestReadTopicReturnsEveryRecordOfEveryPartition(t *testing.T) {
	topic := testkit.Topic(t, 3)
	require.NoError(t, event.ValidateTopic(topic))
	require.Empty(t, testkit.ReadTopic(t, topic))

	produce(t, testkit.Kafka(t), topic, 0, "a", "b")
	produce(t, testkit.Kafka(t), topic, 2, "c")

	var values []string
	for _, record := range testkit.ReadTopic(t, topic) {
		values = append(values, string(record.Value))
	}
	require.Equal(t, []string{"a", "b", "c"}, values)
}

func TestAKilledServerComesBackUnderItsAddressWithItsData(t *testing.T) {
	server := testkit.StartPostgres(t, "max_connections=33")
	db := testkit.Open(t, "postgres", server.DSN())
	_, err := db.Exec("create table t as select 7 as id")
	require.NoError(t, err)

	testkit.Kill(t, server.PID())
	again := testkit.RestartPostgres(t, server)

	require.Equal(t, server.DSN(), again.DSN())
	var id int
	var connections string
	require.NoError(t, testkit.Open(t, "postgres", again.DSN()).QueryRow("select id, current_setting('max_connections') from t").Scan(&id, &connections))
	require.Equal(t, 7, id)
	require.Equal(t, "33", connections)
}

func TestAKilledBrokerComesBackUnderItsAddressWithItsRecords(t *testing.T) {
	broker := testkit.StartKafka(t, "message.max.bytes=2000000")
	topic := testkit.TopicOn(t, broker.Brokers(), 1)
	produce(t, broker.Brokers(), topic, 0, "record")

	testkit.Kill(t, broker.PID())
	again := testkit.RestartKafka(t, broker)

	require.Equal(t, broker.Brokers(), again.Brokers())
	records := testkit.ReadTopicOn(t, again.Brokers(), topic)
	require.Len(t, records, 1)
	require.Equal(t, "record", string(records[0].Value))
}

func TestNamesAreFreshAndLegalWhateverTheTestIsCalled(t *testing.T) {
	t.Run("ä / name \"with\" everything, longer than what PostgreSQL and Kafka would take as an identifier", func(t *testing.T) {
		group := testkit.Group(t)
		require.NotEqual(t, group, testkit.Group(t))
		require.NoError(t, event.ValidateTopic(group))
		require.NoError(t, testkit.DB(t).Ping())
	})
}

func produce(t *testing.T, brokers []string, topic string, partition int32, values ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	for _, value := range values {
		record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
		require.NoError(t, client.ProduceSync(ctx, record).FirstErr())
	}
}
