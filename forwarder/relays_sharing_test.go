package forwarder_test

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

// shares are the numbers of shards that relays own, the largest first.
func shares(t *testing.T, db *sql.DB) (shares []int) {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), `select count(s.shard) from millrace.outbox_relay r
		left join millrace.outbox_shard s using (relay_id) group by r.relay_id order by 1 desc`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var n int
		require.NoError(t, rows.Scan(&n))
		shares = append(shares, n)
	}
	require.NoError(t, rows.Err())
	return shares
}

func sharing(t *testing.T, db *sql.DB, want ...int) {
	t.Helper()
	var got []int
	eventually(t, func() bool { got = shares(t, db); return slices.Equal(got, want) }, "shards are not shared evenly")
}

// short is a configuration for tests of leases.
func short() outbox.SubscriberConfig {
	config := quick()
	config.Lease = 1500 * time.Millisecond
	return config
}

func TestRelaysShareEvenlyAsTheyComeAndGo(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	run(t, db, wire, short())
	sharing(t, db, 64)
	second := newForwarder(t, db, wire, newConfig(short()))
	ended := make(chan error, 1)
	go func() { ended <- second.Run(context.Background()) }()
	sharing(t, db, 32, 32)
	third := run(t, db, wire, short())
	sharing(t, db, 22, 21, 21)
	require.Zero(t, third.Stats().Takeovers, "shards are handed over, not taken")
	require.NoError(t, second.Close())
	require.NoError(t, <-ended)
	sharing(t, db, 32, 32)
}

func TestShardsOfACrashedRelayAreTakenOverWhenItsLeaseHasEnded(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	const crashed = `00000000-0000-0000-0000-000000000001`
	execute(t, db, `insert into millrace.outbox_relay (relay_id, name, lease_ms, lease_until) values ($1, 'crashed', 2000, millrace.clock() + interval '2 s')`, crashed)
	execute(t, db, `update millrace.outbox_shard set relay_id = $1, claim_id = $1, claim_version = 1`, crashed)
	publish(t, db, "orders", orderEvent(1, 1))
	f := newForwarder(t, db, wire, newConfig(short()))
	_, err := f.RunOnce(t.Context(), 10)
	require.ErrorIs(t, err, outbox.ErrLeaseHeld)
	require.Zero(t, f.Stats().Takeovers)

	running := run(t, db, wire, short())
	eventually(t, func() bool { return scan[int](t, db, `select count(*) from millrace.outbox_relay`) == 2 }, "a relay without shards is visible")
	settled(t, db)
	eventually(t, func() bool { return running.Stats().Takeovers == 64 }, "takeovers are not counted")
	require.True(t, scan[bool](t, db, `select millrace.clock() > lease_until from millrace.outbox_relay where name = 'crashed'`))
}

// RunOnce beside a relay that holds everything has nothing to do and says so.
func TestRunBesideARelayIsTurnedAway(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	f := run(t, db, wire, quick())
	sharing(t, db, 64)
	publish(t, db, "orders", orderEvent(1, 1))
	_, err := f.RunOnce(t.Context(), 10)
	require.ErrorIs(t, err, outbox.ErrLeaseHeld)
	settled(t, db)
	once(t, &wire.recorder)
}

// The claim is committed, its answer never arrives: the relay finds out what it owns by the claim_id.
func TestShardsOfAClaimWhoseAnswerWasLostAreAdopted(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	cut := &cutter{when: []byte("set relay_id = $1")}
	proxied := testkit.Open(t, "postgres", cut.listen(t, dsn))
	wire := &lanes{}
	publish(t, db, "orders", orderEvent(1, 1), orderEvent(2, 1))
	f := run(t, proxied, wire, short())
	settled(t, db)
	require.Equal(t, 1, cut.cuts(), "the connection was cut when it carried the answer")
	require.Equal(t, 2, inOrder(t, &wire.recorder))
	require.Equal(t, 1, scan[int](t, db, `select max(claim_version) from millrace.outbox_shard`), "nothing was claimed twice")
	require.Zero(t, f.Stats().Takeovers)
}

// A shard that could not be given back must not stay with a relay that no longer reads it.
func TestAHandOverThatFailsIsMadeUpFor(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	log := &logged{}
	runLogged(t, db, wire, newConfig(short()), log)
	sharing(t, db, 64)
	execute(t, db, `create table refusing as select true as now`)
	execute(t, db, `create function refuse() returns trigger language plpgsql as $$ begin
		if new.relay_id is null and (select now from refusing) then raise exception 'not now'; end if; return new; end $$`)
	execute(t, db, `create trigger refuse before update on millrace.outbox_shard for each row execute function refuse()`)
	second := newForwarder(t, db, wire, newConfig(short()))
	ended := make(chan error, 1)
	go func() { ended <- second.Run(context.Background()) }()
	eventually(t, func() bool { return strings.Contains(strings.Join(log.all(), "\n"), "not now") }, "no hand-over was tried")
	execute(t, db, `update refusing set now = false`)
	sharing(t, db, 32, 32)
	publish(t, db, "orders", firstVersions(1, 300)...)
	settled(t, db)
	require.NoError(t, second.Close())
	require.NoError(t, <-ended)
}

// cutter is a proxy before PostgreSQL that cuts the connection when a statement has taken effect and its answer comes back,
// the first time it sees the statement.
type cutter struct {
	when []byte
	mu   sync.Mutex
	done int
}

func (c *cutter) cuts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

func (c *cutter) listen(t *testing.T, dsn string) (proxied string) {
	t.Helper()
	address, err := url.Parse(dsn)
	require.NoError(t, err)
	server := address.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { c.serve(client, server) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		serving.Wait()
	})
	address.Host = listener.Addr().String()
	return address.String()
}

func (c *cutter) serve(client net.Conn, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		_ = client.Close()
		return
	}
	var mu sync.Mutex
	seen, armed := false, false // the statement was parsed; it is being executed
	var both sync.WaitGroup
	pipe := func(to, from net.Conn, pass func([]byte) bool) {
		defer to.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 && !pass(buffer[:n]) {
				return
			}
			if n > 0 {
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	both.Go(func() {
		pipe(server, client, func(b []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			armed = seen && b[0] == 'B'
			seen = seen || bytes.Contains(b, c.when)
			return true
		})
	})
	both.Go(func() {
		pipe(client, server, func([]byte) bool {
			mu.Lock()
			defer mu.Unlock()
			c.mu.Lock()
			defer c.mu.Unlock()
			if !armed || c.done > 0 {
				return true
			}
			c.done++
			return false
		})
	})
	both.Wait()
	_, _ = io.Copy(io.Discard, server)
	_ = server.Close()
	_ = client.Close()
}
