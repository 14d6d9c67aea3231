package doctor_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/cmd/app/internal/doctor"
	"github.com/millrace-go/millrace/internal/testkit"
)

func TestAPoolerInTransactionModeIsFoundAndKeepsNobodyFromLooking(t *testing.T) {
	p := newPatient(t)
	before := p.examine()
	require.Contains(t, before["pooler.mode"].Detail, "of its own")
	pooled, err := url.Parse(testkit.PgBouncer(t, p.dsn))
	require.NoError(t, err)
	p.reopen(func(u *url.URL) { u.Host = pooled.Host })
	for range 5 {
		p.becomes(before, map[string]doctor.Status{"wake_up.listen": doctor.Warning})
		require.Contains(t, p.examine()["pooler.mode"].Detail, "transaction mode")
	}
	var listening int
	require.NoError(t, p.db.QueryRow("select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen %' and pid <> pg_backend_pid()").Scan(&listening))
	require.Zero(t, listening, "none of the pool's connections listens")

	p.config.ListenElsewhere = true // the server's own address
	p.becomes(before, map[string]doctor.Status{})
}
