package testkit

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// nobody is who a pooler runs as for root, whom it refuses.
	nobody = 65534
	// poolSize is small, so that connections share server processes all the time.
	poolSize = 3
	// poolerTimeout bounds its start.
	poolerTimeout = 30 * time.Second
)

// PgBouncer starts a pooler in transaction mode in front of the server and returns the address of the same database through
// it. Its server connections are few, and taken in turns. It is ended with the test.
func PgBouncer(t testing.TB, dsn string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	require.NoError(t, err, "pgbouncer is missing: install Debian's package pgbouncer")
	behind, err := url.Parse(dsn)
	require.NoError(t, err)
	dir := StateDir(t)
	port := freePort(t)
	config := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(config, []byte(poolerConfig(behind, port)), 0o600))

	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	// The shell ends it when its standard input ends, which it does with the test and with the test process.
	cmd := exec.CommandContext(context.Background(), "sh", "-c", `"$0" "$1" & read -r _; kill -9 $!; wait`, program, config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, nobody, nobody))
		require.NoError(t, os.Chown(config, nobody, nobody))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, input.Close())
		_ = cmd.Wait() // killed
	})

	address := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	if !listens(address) {
		said, err := os.ReadFile(log.Name())
		require.FailNow(t, "pgbouncer does not listen", "%s%v", said, err)
	}
	through := *behind
	through.Host = address
	return through.String()
}

// poolerConfig leads each database to the server with the login of dsn. Whoever comes is let in; it listens on loopback only.
func poolerConfig(behind *url.URL, port int) string {
	password, _ := behind.User.Password()
	return fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
min_pool_size = %d
max_client_conn = 500
server_round_robin = 1
ignore_startup_parameters = extra_float_digits
`, behind.Hostname(), behind.Port(), behind.User.Username(), quotePooler(password), port, poolSize, poolSize)
}

func quotePooler(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// listens waits until somebody accepts connections there.
func listens(address string) bool {
	for began := time.Now(); time.Since(began) < poolerTimeout; {
		conn, err := (&net.Dialer{Timeout: poolerTimeout}).DialContext(context.Background(), "tcp", address)
		if err == nil {
			return conn.Close() == nil
		}
		<-time.After(10 * time.Millisecond)
	}
	return false
}

// freePort is a port that nobody listened on a moment ago.
func freePort(t testing.TB) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())
	return port
}
