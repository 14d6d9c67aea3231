package outbox_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/migrations"
	"github.com/millrace-go/millrace/outbox"
)

// woken starts a relay that all but never polls, and returns once it listens and has just looked in vain, with some seconds
// to go to its next look. What is emitted within them was told of.
func woken(t *testing.T, db *sql.DB, dsn, schema string) (received func(id string)) {
	t.Helper()
	s, err := outbox.NewSubscriber(db, outbox.SubscriberConfig{Schema: schema, PollInterval: time.Hour, MinBackoff: time.Millisecond, DirectURL: dsn}, nil)
	messages := subscribe(t, s, err)
	becomesIdle(t, db)
	return func(id string) {
		t.Helper()
		select {
		case msg := <-messages:
			require.Contains(t, string(msg.Payload), fmt.Sprintf("%q", id))
			msg.Ack()
		case <-time.After(4 * time.Second):
			require.Fail(t, "nobody woke the relay")
		}
	}
}

func becomesIdle(t *testing.T, db *sql.DB) {
	t.Helper()
	var last time.Time
	require.Eventually(t, func() bool {
		var read sql.NullTime
		require.NoError(t, db.QueryRow(`select max(query_start) from pg_stat_activity where datname = current_database()
			and query like '%-- Reads%' and pid <> pg_backend_pid()`).Scan(&read))
		if !read.Time.After(last) { // or the connection has done something else meanwhile
			return false
		}
		paused := read.Time.Sub(last)
		last = read.Time
		return paused > 2*time.Second && paused < time.Hour
	}, time.Minute, 10*time.Millisecond, "the relay looks again and again")
}

func listeners(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRow(`select count(*) from pg_stat_activity where datname = current_database()
		and application_name = 'millrace wake-up' and query like 'listen %' and state = 'idle'`).Scan(&n))
	return n
}

func TestAnIdleRelayIsWokenInASchemaOfAnyName(t *testing.T) {
	db, dsn := testkit.Database(t)
	schema := strings.Repeat("order_", 10) + "xyz" // as long as it may be
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{Schema: schema}))
	received := woken(t, db, dsn, schema)
	_, err := db.Exec(fmt.Sprintf(`insert into %q.outbox (event_id, topic, payload) values ('a', 'orders', 'x')`, schema))
	require.NoError(t, err)
	received("a")
}

func TestAnEventNobodyNotifiesOfFollowsOneSomebodyDoes(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	received := woken(t, db, dsn, "")
	_, err := db.Exec(`do $f$ begin execute format('create or replace function millrace.clock() returns timestamptz language sql volatile
		as $$ select timestamptz %L $$', clock_timestamp()); end $f$`)
	require.NoError(t, err)
	first, err := db.Begin()
	require.NoError(t, err)
	second, err := db.Begin()
	require.NoError(t, err)
	for n, tx := range []*sql.Tx{first, second} {
		_, err := tx.Exec(`insert into millrace.outbox (event_id, topic, payload) values ($1, 'orders', 'x')`, fmt.Sprint("event-", n))
		require.NoError(t, err)
	}
	_, err = db.Exec(`create or replace function millrace.clock() returns timestamptz language sql volatile as 'select clock_timestamp()'`)
	require.NoError(t, err)
	require.NoError(t, first.Commit())
	received("event-0")
	require.NoError(t, second.Commit())
	received("event-1")
}

func TestAnEventCommittedWhileTheListenerIsAwayIsRelayed(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	received := woken(t, db, dsn, "")
	require.Equal(t, 1, listeners(t, db))
	tx, err := db.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`insert into millrace.outbox (event_id, topic, payload) values ('a', 'orders', 'x')`)
	require.NoError(t, err)
	_, err = tx.Exec(`select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = current_database() and application_name = 'millrace wake-up'`)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	received("a")
	require.Eventually(t, func() bool { return listeners(t, db) == 1 }, 30*time.Second, 5*time.Millisecond)
	insertOrder(t, db, "b", 1)
	received("b-1")
}

func TestARelayWithoutDirectURLPolls(t *testing.T) {
	db := testkit.Migrated(t)
	s, err := outbox.NewSubscriber(db, quickConfig(), nil)
	messages := subscribe(t, s, err)
	insertOrder(t, db, "a", 1)
	receive(t, messages).Ack()
	require.Zero(t, listeners(t, db))
}

func TestTwoPhaseCommitWorksWithTheWakeUpSwitchedOff(t *testing.T) {
	server := testkit.StartPostgres(t, "max_prepared_transactions=5")
	db := testkit.Open(t, "postgres", server.DSN())
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{}))
	prepare := func() error {
		tx, err := db.Begin()
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		_, err = tx.Exec(`insert into millrace.outbox (event_id, topic, payload) values ('a', 'orders', 'x')`)
		require.NoError(t, err)
		_, err = tx.Exec(`prepare transaction 'a'`)
		return err
	}
	require.ErrorContains(t, prepare(), "NOTIFY")

	_, err := db.Exec(`alter table millrace.outbox disable trigger outbox_wake_up`)
	require.NoError(t, err)
	require.NoError(t, prepare())
	_, err = db.Exec(`commit prepared 'a'`)
	require.NoError(t, err)
	s, err := outbox.NewSubscriber(db, quickConfig(), nil)
	receive(t, subscribe(t, s, err)).Ack()
}
