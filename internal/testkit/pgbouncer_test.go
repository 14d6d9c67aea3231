package testkit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

func TestAPoolerGivesOneServerProcessToSeveralConnections(t *testing.T) {
	db := testkit.Open(t, "pgx", testkit.PgBouncer(t, testkit.DSN(t))+"&default_query_exec_mode=exec")
	processes := map[int]bool{}
	for range 10 {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		var process int
		require.NoError(t, conn.QueryRowContext(t.Context(), "select pg_backend_pid()").Scan(&process))
		processes[process] = true
	}
	require.Less(t, len(processes), 10)
}
