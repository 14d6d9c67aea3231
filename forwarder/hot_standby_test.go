package forwarder_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/service"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/migrations"
)

// On a standby a snapshot does not list the transactions in progress: a frontier read there would skip them.
func TestRelayOnAHotStandbySendsNothing(t *testing.T) {
	primary := testkit.StartPostgres(t)
	db := testkit.Open(t, "postgres", primary.DSN())
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{}))
	publish(t, db, "orders", orderEvent(1, 1))
	require.NoError(t, db.Close())
	require.NoError(t, primary.Stop())

	config := primary.Config()
	data := filepath.Join(config.StateDir, "postgres", "data")
	// A copy of a file in there belongs to the server's user.
	require.NoError(t, exec.Command("cp", "-a", filepath.Join(data, "PG_VERSION"), filepath.Join(data, "standby.signal")).Run())
	standby, err := service.StartPostgres(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })
	db = testkit.Open(t, "postgres", standby.DSN())
	require.True(t, scan[bool](t, db, `select pg_is_in_recovery()`))

	wire := &recorder{}
	f := newForwarder(t, db, wire, forwarder.Config{})
	sent, err := f.RunOnce(t.Context(), 10)
	require.ErrorContains(t, err, "register relay")
	require.Zero(t, sent)
	require.Empty(t, wire.ids())
	_, err = db.ExecContext(t.Context(), `select millrace.anchor()`)
	require.ErrorContains(t, err, "recovery is in progress", "no statement that compares the anchor works")
	require.Equal(t, 1, pending(t, db))
}
