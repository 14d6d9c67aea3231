package doctor_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/cmd/app/internal/doctor"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/migrations"
)

// What needs a server of its own, as it is set at its start.
func TestPreparedTransactionsSlotsAndStandbysAreTold(t *testing.T) {
	server := testkit.StartPostgres(t, "max_prepared_transactions=5", "wal_level=logical", "fsync=off")
	db := testkit.Open(t, "postgres", server.DSN())
	require.NoError(t, migrations.Up(t.Context(), db, migrations.Config{}))
	p := newPatientOn(t, db, server.DSN())
	before := p.examine()
	require.Equal(t, doctor.Warning, before["postgres.crash_safety"].Status)
	require.Equal(t, doctor.Warning, before["wake_up.trigger"].Status, "two-phase commit is possible, and impossible with it")

	p.config.LongTransaction = time.Nanosecond
	p.execute("begin; select pg_current_xact_id(); prepare transaction 'forgotten'")
	p.becomes(before, map[string]doctor.Status{"horizon.prepared": doctor.Warning})
	require.Contains(t, p.examine()["horizon.prepared"].Detail, `"forgotten" in postgres`)
	p.execute("rollback prepared 'forgotten'")

	p.execute("select pg_create_logical_replication_slot('nobody_reads', 'pgoutput')")
	p.becomes(before, map[string]doctor.Status{"horizon.slots": doctor.Warning})
	require.Contains(t, p.examine()["horizon.slots"].Detail, "nobody_reads (inactive")
	p.execute("select pg_drop_replication_slot('nobody_reads')")

	require.NoError(t, db.Close())
	require.NoError(t, server.Stop())
	data, err := filepath.Glob(filepath.Join(server.Config().StateDir, "*", "data"))
	require.NoError(t, err)
	require.Len(t, data, 1)
	require.NoError(t, os.WriteFile(filepath.Join(data[0], "standby.signal"), nil, 0o600))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(filepath.Join(data[0], "standby.signal"), 65534, 65534))
	}
	p.dsn = testkit.RestartPostgres(t, server).DSN()
	p.config.DirectURL, p.config.LongTransaction = p.dsn, 0
	p.reopen(nil)
	require.Equal(t, map[string]doctor.Status{
		"postgres.primary": doctor.Failed, "wake_up.listen": doctor.Skipped, "outbox.shards": doctor.Skipped, "outbox.suspects": doctor.Skipped,
	}, p.changed(before))
	require.Contains(t, p.examine()["outbox.shards"].Detail, "recovery")
}
