package outbox

import (
	"database/sql"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// listen starts a listener and returns once it listens.
func listen(t *testing.T, dsn string, change func(*listener)) *listener {
	t.Helper()
	config := SubscriberConfig{DirectURL: dsn, MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond}
	config.setDefaults()
	l := newListener(config, watermill.NopLogger{})
	if change != nil {
		change(l)
	}
	l.start()
	t.Cleanup(l.Close)
	hear(t, l)
	return l
}

// hear waits for a wake-up.
func hear(t *testing.T, l *listener) {
	t.Helper()
	select {
	case <-l.C:
	case <-time.After(30 * time.Second):
		require.Fail(t, "no wake-up")
	}
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.Begin()
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func insertIn(t *testing.T, tx *sql.Tx, id string) {
	t.Helper()
	_, err := tx.Exec(`insert into millrace.outbox (event_id, topic, payload) values ($1, 'orders', 'x')`, id)
	require.NoError(t, err)
}

func bucketLocks(t *testing.T, db *sql.DB) int {
	t.Helper()
	return one[int](t, db, `select count(*) from pg_locks where locktype = 'advisory'
		and database = (select oid from pg_database where datname = current_database())
		and classid = 'millrace.outbox'::regclass::oid`)
}

func setClock(t *testing.T, db *sql.DB, time string) {
	t.Helper()
	run(t, db, `create or replace function millrace.clock() returns timestamptz language sql volatile as $$ select `+time+` $$`)
}

func TestAnEventWakesTheRelayWhenItCommits(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	l := listen(t, dsn, nil)
	insertEvents(t, db, 100)
	hear(t, l)
	require.Empty(t, l.C, "one statement, one wake-up")
	tx := begin(t, db)
	insertIn(t, tx, "a")
	require.NoError(t, tx.Commit())
	hear(t, l)
}

func TestTwoTransactionsOfOneMomentDoNotWaitForEachOther(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	l := listen(t, dsn, nil)
	setClock(t, db, `timestamptz '2020-01-01'`)
	first, second := begin(t, db), begin(t, db)
	insertIn(t, first, "first")
	insertIn(t, second, "second")
	require.Equal(t, 1, bucketLocks(t, db))
	require.NoError(t, second.Commit())
	require.Empty(t, l.C)
	require.NoError(t, first.Commit())
	hear(t, l)
}

func TestATransactionThatStaysOpenSilencesNobody(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	l := listen(t, dsn, nil)
	open := begin(t, db)
	setClock(t, db, `timestamptz '2020-01-01 00:00:00.01'`)
	insertIn(t, open, "open")
	setClock(t, db, `timestamptz '2020-01-01 00:00:00.06'`)
	insertEvents(t, db, 1)
	hear(t, l)
	require.Equal(t, 1, bucketLocks(t, db), "of the one that is open")
}

func TestATransactionThatWritesForHoursTakesOneLock(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	l := listen(t, dsn, nil)
	tx := begin(t, db)
	for n, id := range []string{"a", "b", "c"} {
		setClock(t, db, `timestamptz '2020-01-01' + interval '1 s' * `+string(rune('0'+n)))
		insertIn(t, tx, id)
	}
	require.Equal(t, 1, bucketLocks(t, db))
	require.NoError(t, tx.Commit())
	hear(t, l)
}

func TestARolledBackSavepointTakesNoWakeUpWithIt(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	l := listen(t, dsn, nil)
	tx := begin(t, db)
	_, err := tx.Exec("savepoint s")
	require.NoError(t, err)
	insertIn(t, tx, "a")
	_, err = tx.Exec("rollback to savepoint s")
	require.NoError(t, err)
	insertIn(t, tx, "b")
	require.NoError(t, tx.Commit())
	hear(t, l)
	tx = begin(t, db)
	insertIn(t, tx, "c")
	require.NoError(t, tx.Rollback())
	require.Zero(t, bucketLocks(t, db))
	require.Empty(t, l.C)
}

func TestALostConnectionIsReplacedAndSaidOnce(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	logger := watermill.NewCaptureLogger()
	l := listen(t, dsn, func(l *listener) { l.logger = logger })
	insertEvents(t, db, 1)
	hear(t, l)
	run(t, db, `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'millrace wake-up'`)
	hear(t, l) // it is back, and something may have been missed
	require.Len(t, logger.Captured()[watermill.ErrorLogLevel], 1)
	require.Len(t, logger.Captured()[watermill.InfoLogLevel], 1)
	tx := begin(t, db)
	insertIn(t, tx, "a")
	require.NoError(t, tx.Commit())
	hear(t, l)
}

// A connection may be gone without a word: the server lost its power, or something between forgot about it.
func TestAConnectionThatFallsSilentIsNoticed(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	proxy := newSilentProxy(t, dsn)
	l := listen(t, proxy.url, func(l *listener) { l.probeInterval, l.answerBound = 20*time.Millisecond, time.Second })
	require.Eventually(t, func() bool {
		return one[bool](t, db, `select exists (select from pg_stat_activity where datname = current_database()
			and application_name = 'millrace wake-up' and query = '')`)
	}, 30*time.Second, 5*time.Millisecond, "it is probed, and the probe is answered")
	proxy.silence()
	hear(t, l)
	insertEvents(t, db, 1)
	hear(t, l)
}

func TestCloseWaitsForNoAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	l := newListener(SubscriberConfig{DirectURL: "postgres://u:s3cret@" + silent.Addr().String() + "/d?sslmode=disable"}, watermill.NopLogger{})
	l.answerBound = time.Hour
	l.start()
	conn, err := silent.Accept()
	require.NoError(t, err)
	defer conn.Close()
	l.Close()
}

func TestTheConnectionStringIsNeverShown(t *testing.T) {
	const secret = "s3cret"
	for _, bad := range []string{"postgres://u:" + secret + "@h:port/d", "postgres://u:" + secret + "@h/d?sslmode=" + secret, "password=" + secret + " x"} {
		err := SubscriberConfig{DirectURL: bad}.Validate()
		require.ErrorContains(t, err, "DirectURL", bad)
		require.NotContains(t, err.Error(), secret)
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	l := newListener(SubscriberConfig{DirectURL: "postgres://" + secret + ":" + secret + "@" + gone.Addr().String() + "/" + secret}, watermill.NopLogger{})
	err = l.listen(t.Context(), func() {})
	require.ErrorContains(t, err, "refused")
	require.NotContains(t, err.Error(), secret)
}

func TestEachSchemaHasAChannelThatFits(t *testing.T) {
	require.Equal(t, "outbox_wake_up_millrace", wakeUpChannel("millrace"))
	require.Len(t, wakeUpChannel(strings.Repeat("x", 63)), 63)
}

// silentProxy passes connections on. When it is silenced, those it has stay open and say nothing any more.
type silentProxy struct {
	url   string
	mu    sync.Mutex
	conns []*silenced
}

type silenced struct {
	client, server net.Conn
	mu             sync.Mutex
	mute           bool
}

func newSilentProxy(t *testing.T, dsn string) *silentProxy {
	t.Helper()
	parsed, err := url.Parse(dsn)
	require.NoError(t, err)
	server := parsed.Host
	front, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	parsed.Host = front.Addr().String()
	p := &silentProxy{url: parsed.String()}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := front.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			c := &silenced{client: client, server: back}
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			work.Go(func() { c.pass(client, back) })
			work.Go(func() { c.pass(back, client) })
		}
	})
	t.Cleanup(func() {
		front.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.client.Close()
			c.server.Close()
		}
		p.mu.Unlock()
		work.Wait()
	})
	return p
}

func (c *silenced) pass(from, to net.Conn) {
	buffer := make([]byte, 1<<12)
	for {
		n, err := from.Read(buffer)
		c.mu.Lock()
		mute := c.mute
		c.mu.Unlock()
		if !mute {
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			if errors.Is(err, io.EOF) && !mute {
				to.Close()
			}
			return
		}
	}
}

func (p *silentProxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.mu.Lock()
		c.mute = true
		c.mu.Unlock()
	}
}
