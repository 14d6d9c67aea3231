package forwarder_test

import (
	"database/sql"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// pgTool is the path of a client program of the server's own installation.
func pgTool(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	require.NoError(t, err)
	require.NotEmpty(t, found, "%s is part of PostgreSQL's client programs", name)
	return found[len(found)-1]
}

// ageBy uses up transaction ids until the condition holds, 500 at least.
func ageBy(t *testing.T, db *sql.DB, condition string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	for _, statement := range []string{
		`set synchronous_commit = off`,
		`do $$ begin loop for n in 1..500 loop perform pg_current_xact_id(); commit; end loop; exit when ` + condition + `; end loop; end $$`,
		`reset synchronous_commit`,
	} {
		_, err = conn.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
}

// A dump is restored into a fresh cluster, whose transaction ids begin far below those of the restored rows, while it goes
// on being written to.
func TestRestoredDumpIsRelayedFromWhereItWas(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	ageBy(t, db, `(select true)`) // so that the ids are those of no fresh cluster
	before := &lanes{}
	for version := 1; version <= 20; version++ {
		publish(t, db, "orders", orderEvent(1, version), orderEvent(2, version), orderEvent(3, version))
	}
	sent, err := newForwarder(t, db, before, newConfig(quick())).RunOnce(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 60, sent)
	for order := 11; order <= 60; order++ {
		publish(t, db, "orders", orderEvent(order, 1))
	}
	dump := filepath.Join(t.TempDir(), "dump")
	out, err := exec.Command(pgTool(t, "pg_dump"), "-Fc", "-f", dump, dsn).CombinedOutput()
	require.NoError(t, err, "%s", out)

	server := testkit.StartPostgres(t)
	out, err = exec.Command(pgTool(t, "pg_restore"), "-d", server.DSN(), dump).CombinedOutput()
	require.NoError(t, err, "%s", out)
	fresh := testkit.Open(t, "postgres", server.DSN())
	require.True(t, scan[bool](t, fresh, `select bool_and(xid >= pg_snapshot_xmax(pg_current_snapshot())) from millrace.outbox`))
	after := &lanes{}
	config := quick()
	config.SweepInterval = instant
	f := run(t, fresh, after, config)
	for order := 61; order <= 70; order++ {
		publish(t, fresh, "orders", orderEvent(order, 1))
	}
	settled(t, fresh)
	require.Len(t, after.ids(), 60, "50 of the backlog and 10 new ones; what has a receipt is not sent again")
	require.Equal(t, 60, inOrder(t, &after.recorder))

	// The transaction ids of the new cluster pass those of the restored rows: they do not come back.
	ageBy(t, fresh, `(select bool_and(xid < pg_snapshot_xmin(pg_current_snapshot())) from millrace.outbox)`)
	publish(t, fresh, "orders", orderEvent(70, 2))
	settled(t, fresh)
	require.Len(t, after.ids(), 61)
	require.Zero(t, f.Stats().Late)
	require.Zero(t, f.Stats().Swept)
}
