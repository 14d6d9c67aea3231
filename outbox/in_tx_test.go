package outbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

func TestInTxRollsBackOnErrorAndPanic(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		db.SetMaxOpenConns(1) // a transaction left open would block the next
		boom := errors.New("boom")
		err := outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
			require.NoError(t, newPublisher(t, tx).Publish("orders", named("a")))
			return boom
		})
		require.Equal(t, boom, err, "unchanged")
		require.PanicsWithValue(t, "boom", func() {
			_ = outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
				require.NoError(t, newPublisher(t, tx).Publish("orders", named("a")))
				panic("boom")
			})
		})
		require.Empty(t, writtenIDs(t, db))
	})
}

func TestInTxIsReadCommittedWhateverTheDefault(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		_, err := db.Exec(`do $$ begin execute format('alter database %I set default_transaction_isolation = serializable', current_database()); end $$`)
		require.NoError(t, err)
		db.SetMaxIdleConns(0)
		require.NoError(t, outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
			carried, ok := event.TxFromContext(ctx)
			require.True(t, ok)
			require.Same(t, tx, carried)
			var level string
			require.NoError(t, tx.QueryRowContext(ctx, "show transaction_isolation").Scan(&level))
			require.Equal(t, "read committed", level)
			return nil
		}))
	})
}

func TestInTxKnowsACommitThatTheServerRefused(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		_, err := db.Exec("create table parent (id int primary key); create table child (id int references parent deferrable initially deferred)")
		require.NoError(t, err)
		err = outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
			require.NoError(t, newPublisher(t, tx).Publish("orders", named("a")))
			_, err := tx.Exec("insert into child values (1)")
			return err
		})
		require.Error(t, err)
		require.NotErrorIs(t, err, outbox.ErrOutcomeUnknown, "a deferred constraint")

		err = outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
			require.NoError(t, newPublisher(t, tx).Publish("orders", named("a")))
			_, _ = tx.Exec("select 1/0") // and the error is overlooked
			return nil
		})
		require.Error(t, err)
		require.NotErrorIs(t, err, outbox.ErrOutcomeUnknown, "an aborted transaction")

		ctx, cancel := context.WithCancel(t.Context())
		err = outbox.InTx(ctx, db, func(_ context.Context, tx *sql.Tx) error {
			require.NoError(t, newPublisher(t, tx).Publish("orders", named("a")))
			cancel()
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, outbox.ErrOutcomeUnknown, "a context that ended before COMMIT")
		require.Empty(t, writtenIDs(t, db))
	})
}

func TestInTxDoesNotTrustAServerThatIsGoingDown(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		err := outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
			var pid int
			require.NoError(t, tx.QueryRow("select pg_backend_pid()").Scan(&pid))
			_, err := db.Exec("select pg_terminate_backend($1)", pid)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				return scanOne[int](t, db, "select count(*) from pg_stat_activity where pid = $1", pid) == 0
			}, testTimeout, pollInterval)
			return nil
		})
		require.ErrorIs(t, err, outbox.ErrOutcomeUnknown)
	})
}

func TestLostAnswerToCommitMakesNoSecondEvent(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		for fault, committed := range map[commitFault]bool{loseAnswer: true, loseCommit: false} {
			t.Run(driver+"/"+string(fault), func(t *testing.T) {
				direct, dsn := testkit.MigratedDatabase(t)
				proxy := startProxy(t, dsn)
				db := testkit.Open(t, driver, proxy.dsn)
				operation := func() error {
					return outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
						version, err := outbox.NextVersion(ctx, tx, "order", "1")
						if err != nil {
							return err
						}
						return newPublisher(t, tx).Publish("orders", named("a", event.Aggregate("order", "1", version)))
					})
				}
				proxy.fault.Store(fault)
				err := operation()
				require.ErrorIs(t, err, outbox.ErrOutcomeUnknown)
				proxy.fault.Store(commitFault(""))

				outcome, err := outbox.Lookup(t.Context(), db, "a")
				require.NoError(t, err)
				require.Equal(t, committed, outcome.Committed)
				if !outcome.Committed {
					require.NoError(t, operation())
				}
				require.Equal(t, "a", writtenIDs(t, direct))
				require.Equal(t, 1, scanOne[int](t, direct, "select version from millrace.aggregate_version"))
			})
		}
	}
}

const (
	testTimeout  = 10 * time.Second
	pollInterval = 2 * time.Millisecond
)

// commitFault is what happens to a COMMIT on its way.
type commitFault string

const (
	loseAnswer commitFault = "committed, answer lost"
	loseCommit commitFault = "never arrived"
)

// proxy stands between a client and PostgreSQL.
type proxy struct {
	dsn    string
	server string
	fault  atomic.Value
	wg     sync.WaitGroup
}

func startProxy(t *testing.T, dsn string) *proxy {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{server: u.Host}
	p.fault.Store(commitFault(""))
	u.Host = listener.Addr().String()
	p.dsn = u.String()
	p.wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	var deaf atomic.Bool
	p.wg.Go(func() {
		defer client.Close()
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			if err != nil || deaf.Load() { // deaf: the server has answered, so it has committed
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(bytes.ToLower(buffer[:n]), []byte("commit\x00")) {
			switch p.fault.Load() {
			case loseCommit:
				return
			case loseAnswer:
				deaf.Store(true)
			}
		}
		if _, err := io.Copy(server, bytes.NewReader(buffer[:n])); err != nil {
			return
		}
	}
}
