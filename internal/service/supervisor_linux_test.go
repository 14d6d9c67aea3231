package service_test

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/service"
)

func TestAKilledSupervisorsServerIsReplaced(t *testing.T) {
	first := startPostgres(t, service.PostgresConfig{StateDir: stateDir(t)})
	query(t, first.DSN(), "create table kept as select 42 as id")
	require.NoError(t, syscall.Kill(supervisorOf(t, first.PID()), syscall.SIGKILL))
	require.Error(t, first.Stop(), "the server may still run")

	second := startPostgres(t, first.Config())

	require.False(t, service.Alive(first.PID()))
	require.Equal(t, "42", query(t, second.DSN(), "select id from kept"))
}

// supervisorOf finds the supervisor of a server by what only it does: it keeps the lock file of the state directory
// open.
func supervisorOf(t *testing.T, server int) int {
	t.Helper()
	data, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(server), "cwd"))
	require.NoError(t, err)
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	require.NoError(t, err)
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && target == filepath.Join(filepath.Dir(data), "lock") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(file))))
			require.NoError(t, err)
			return pid
		}
	}
	require.Fail(t, "no process keeps the lock")
	return 0
}
