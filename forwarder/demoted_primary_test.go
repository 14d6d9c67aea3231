package forwarder_test

import (
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/migrations"
)

// movingAddress is an address that leads to one server after another, as a name does in a failover. Connections that exist stay
// where they are.
type movingAddress struct {
	target   atomic.Pointer[string]
	listener net.Listener
}

func newMovingAddress(t *testing.T) *movingAddress {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a := &movingAddress{listener: listener}
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(t.Context(), "tcp", *a.target.Load())
			if err != nil {
				client.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					way[0].Close()
				}()
			}
		}
	}()
	return a
}

func (a *movingAddress) lead(t *testing.T, dsn string) (through string) {
	t.Helper()
	parsed, err := url.Parse(dsn)
	require.NoError(t, err)
	host := parsed.Host
	a.target.Store(&host)
	parsed.Host = a.listener.Addr().String()
	return parsed.String()
}

// After a failover the address leads to the new primary, while the pool is full of good connections to the old one, on which
// nothing can be written any more.
func TestRelayLeavesAServerThatHasBecomeReadOnly(t *testing.T) {
	old, promoted := testkit.StartPostgres(t), testkit.StartPostgres(t)
	address := newMovingAddress(t)
	db := testkit.Open(t, "postgres", address.lead(t, old.DSN()))
	db.SetMaxIdleConns(20)
	oldDB, newDB := testkit.Open(t, "postgres", old.DSN()), testkit.Open(t, "postgres", promoted.DSN())
	require.NoError(t, migrations.Up(t.Context(), oldDB, migrations.Config{}))
	require.NoError(t, migrations.Up(t.Context(), newDB, migrations.Config{}))
	publish(t, oldDB, "orders", orderEvent(1, 1))
	wire := &lanes{}
	run(t, db, wire, short())
	settled(t, oldDB)

	execute(t, oldDB, `alter system set default_transaction_read_only = on`)
	execute(t, oldDB, `select pg_reload_conf()`)
	address.lead(t, promoted.DSN())
	publish(t, newDB, "orders", orderEvent(1, 2))
	settled(t, newDB)
	require.Equal(t, 2, inOrder(t, &wire.recorder))
}
