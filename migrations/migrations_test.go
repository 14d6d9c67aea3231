package migrations_test

import (
	"context"
	"database/sql"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/migrations"
)

const (
	testTimeout  = 10 * time.Second
	pollInterval = 5 * time.Millisecond
)

var update = flag.Bool("update", false, "rewrite the golden files")

func scan[T any](t *testing.T, db *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	require.NoError(t, db.QueryRow(query, args...).Scan(&v), query)
	return v
}

func TestUpByEightReplicasAtOnceSucceedsForEach(t *testing.T) {
	for range 20 {
		_, dsn := testkit.Database(t)
		const replicas = 8
		start := make(chan struct{})
		errs := make([]error, replicas)
		var wg sync.WaitGroup
		for i := range replicas {
			driver := []string{"postgres", "pgx"}[i%2]
			db, err := sql.Open(driver, dsn)
			require.NoError(t, err)
			wg.Go(func() {
				defer db.Close()
				<-start
				errs[i] = migrations.Up(context.Background(), db, migrations.Config{})
			})
		}
		close(start)
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		db := testkit.Open(t, "postgres", dsn)
		require.Equal(t, 5, scan[int](t, db, "select count(*) from millrace.schema_version"), "0 and one row for each migration")
		require.Equal(t, 64, scan[int](t, db, "select count(*) from millrace.outbox_shard"))
		require.NoError(t, db.Close())
	}
}

func TestUpTwiceChangesNothing(t *testing.T) {
	db, _ := testkit.Database(t)
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{Shards: 7}))
	before := scan[string](t, db, "select string_agg(s::text, ',' order by id) from millrace.schema_version s")
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{}))
	require.Equal(t, before, scan[string](t, db, "select string_agg(s::text, ',' order by id) from millrace.schema_version s"))
	require.Equal(t, 7, scan[int](t, db, "select count(*) from millrace.outbox_shard"), "0 accepts what is there")
}

func TestUpWithOneConnectionDoesNotWaitForItself(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		_, dsn := testkit.Database(t)
		db := testkit.Open(t, driver, dsn)
		db.SetMaxOpenConns(1)
		require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{}))
		_, err := migrations.Status(t.Context(), db, migrations.Config{})
		require.NoError(t, err)
		require.NoError(t, migrations.Down(t.Context(), db, migrations.Config{}))
		require.Zero(t, scan[int](t, db, "select count(*) from pg_locks where locktype = 'advisory'"), "no lock is left behind")
	}
}

func TestUpRefusesAnotherShardCount(t *testing.T) {
	db, _ := testkit.Database(t)
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{Shards: 16}))
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{Shards: 16}))
	err := migrations.Up(t.Context(), db, migrations.Config{Shards: 32})
	require.ErrorIs(t, err, migrations.ErrShardCount)
	require.ErrorContains(t, err, "16")
	require.ErrorContains(t, err, "32")
}

func TestSchemasAreIndependent(t *testing.T) {
	db, _ := testkit.Database(t)
	for _, schema := range []string{"order", "order_2", "_x"} { // the first is a reserved word
		require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{Schema: schema, Shards: 4}))
	}
	for range 4 {
		require.NoError(t, migrations.Down(t.Context(), db, migrations.Config{Schema: "order"}))
	}
	require.Equal(t, 4, scan[int](t, db, "select count(*) from order_2.outbox_shard"))
	require.Empty(t, scan[string](t, db, `select coalesce(to_regclass('"order".outbox')::text, '')`))
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{Schema: "order", Shards: 5}), "and up again")
}

func TestUpLooksAtNoOtherSchemaOfTheSearchPath(t *testing.T) {
	_, dsn := testkit.Database(t)
	db := testkit.Open(t, "postgres", dsn)
	db.SetMaxOpenConns(1)
	_, err := db.Exec("create schema other; create table other.schema_version (id int); set search_path = other")
	require.NoError(t, err)
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{}))
	require.Zero(t, scan[int](t, db, "select count(*) from other.schema_version"))
}

func TestStatusOnAnEmptyDatabaseCreatesNothing(t *testing.T) {
	db, _ := testkit.Database(t)
	status, err := migrations.Status(t.Context(), db, migrations.Config{})
	require.NoError(t, err)
	require.Len(t, status, 4)
	for i, m := range status {
		require.EqualValues(t, i+1, m.Version)
		require.False(t, m.Applied)
	}
	require.False(t, scan[bool](t, db, "select to_regnamespace('millrace') is not null"))
	require.NoError(t, migrations.Down(t.Context(), db, migrations.Config{}), "nothing to undo")
	require.False(t, scan[bool](t, db, "select to_regnamespace('millrace') is not null"))
}

func TestStatusAndDownGoStepByStep(t *testing.T) {
	db, _ := testkit.Database(t)
	applied := func() (versions []int64) {
		status, err := migrations.Status(t.Context(), db, migrations.Config{})
		require.NoError(t, err)
		for _, m := range status {
			if m.Applied {
				require.False(t, m.AppliedAt.IsZero())
				versions = append(versions, m.Version)
			}
		}
		return versions
	}
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{}))
	for all := []int64{1, 2, 3, 4}; len(all) > 0; all = all[:len(all)-1] {
		require.Equal(t, all, applied())
		require.NoError(t, migrations.Down(t.Context(), db, migrations.Config{}))
	}
	require.Empty(t, applied())
	require.NoError(t, migrations.Down(t.Context(), db, migrations.Config{}))
}

func TestScriptIsWhatUpDoes(t *testing.T) {
	byUp, _ := testkit.Database(t)
	require.NoError(t, migrations.Up(t.Context(), byUp, migrations.Config{}))
	byScript, _ := testkit.Database(t)
	script, err := migrations.SQL(migrations.Config{})
	require.NoError(t, err)
	_, err = byScript.Exec(script)
	require.NoError(t, err)

	const columns = `select string_agg(concat_ws(' ', table_name, column_name, data_type, column_default, generation_expression, is_nullable),
		e'\n' order by table_name, ordinal_position) from information_schema.columns where table_schema = 'millrace'`
	require.Equal(t, scan[string](t, byUp, columns), scan[string](t, byScript, columns))
	const constraints = `select string_agg(conrelid::regclass || ' ' || pg_get_constraintdef(oid), e'\n'
		order by conrelid::regclass::text, pg_get_constraintdef(oid)) from pg_constraint where connamespace = 'millrace'::regnamespace`
	require.Equal(t, scan[string](t, byUp, constraints), scan[string](t, byScript, constraints))

	status, err := migrations.Status(t.Context(), byScript, migrations.Config{})
	require.NoError(t, err)
	for _, m := range status {
		require.True(t, m.Applied, m.Name)
	}
	require.NoError(t, migrations.Up(t.Context(), byScript, migrations.Config{}), "and a later Up finds nothing to do")
}

func TestScriptGolden(t *testing.T) {
	script, err := migrations.SQL(migrations.Config{Schema: "acme_events", Shards: 16})
	require.NoError(t, err)
	require.NotContains(t, script, "{{")
	const golden = "testdata/acme_events.golden.sql"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(script), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), script)
}

func TestUpSaysWhenTheServerIsTooOld(t *testing.T) {
	db, dsn := testkit.Database(t)
	_, err := db.Exec(`create schema old;
		create function old.current_setting(text) returns text language sql as 'select ''130012''::text';
		do $$ begin execute format('alter database %I set search_path = old, pg_catalog', current_database()); end $$`)
	require.NoError(t, err)
	db = testkit.Open(t, "postgres", dsn)
	err = migrations.Up(t.Context(), db, migrations.Config{})
	require.ErrorIs(t, err, migrations.ErrServerVersion)
	require.ErrorContains(t, err, "13.12")
	require.False(t, scan[bool](t, db, "select to_regnamespace('millrace') is not null"))
}

func TestUpEndsWithItsContext(t *testing.T) {
	db, dsn := testkit.Database(t)
	other := testkit.Open(t, "postgres", dsn)
	tx, err := other.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("select pg_advisory_xact_lock(hashtextextended('millrace migrations of millrace', 0))")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- migrations.Up(ctx, db, migrations.Config{}) }()
	require.Eventually(t, func() bool {
		return scan[int](t, other, "select count(*) from pg_locks where locktype = 'advisory' and not granted") > 0
	}, testTimeout, pollInterval)
	cancel()
	require.Error(t, <-done)
	require.NoError(t, tx.Rollback())
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{}))
}

func TestConfigNamesEveryBadField(t *testing.T) {
	require.NoError(t, migrations.Config{}.Validate())
	err := migrations.Config{Schema: "Robert'); drop table", Shards: 2000}.Validate()
	require.ErrorContains(t, err, "Schema")
	require.ErrorContains(t, err, "Shards 2000")
	require.Error(t, migrations.Config{Schema: string(make([]byte, 64))}.Validate())
	require.Error(t, migrations.Up(t.Context(), nil, migrations.Config{Shards: -1}), "before the database is touched")
}
