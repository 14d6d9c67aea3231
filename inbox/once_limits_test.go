package inbox_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
)

// holdConnection takes the only connection away for a while.
func holdConnection(t *testing.T, db *sql.DB, d time.Duration) {
	t.Helper()
	db.SetMaxOpenConns(1)
	held, err := db.Conn(t.Context())
	require.NoError(t, err)
	time.AfterFunc(d, func() { _ = held.Close() })
}

func TestWaitingForAConnectionTakesNothingFromTheHandlersTime(t *testing.T) {
	t.Parallel()
	store, db := newStore(t)
	holdConnection(t, db, 12*time.Second) // longer than all limits of the transaction together
	limits := inbox.Limits{HandlerTimeout: time.Second, IdleTimeout: time.Second}
	outcome, err := store.Once(context.WithoutCancel(t.Context()), paid("e-1"), limits, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "select pg_sleep(0.5)")
		return err
	})
	require.NoError(t, err)
	require.Equal(t, inbox.Applied, outcome)
}

func TestTimeSpentWaitingForAConnectionIsNoFailureOfTheEvent(t *testing.T) {
	store, db := newStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	slow := func(ctx context.Context, _ *sql.Tx) error { <-ctx.Done(); return ctx.Err() }
	holdConnection(t, db, 1500*time.Millisecond)
	_, err := store.Once(ctx, paid("e-1"), inbox.Limits{}, slow)
	require.True(t, inbox.IsInfrastructure(err), "%v", err)

	_, err = store.Once(t.Context(), paid("e-1"), inbox.Limits{HandlerTimeout: 100 * time.Millisecond}, slow)
	require.False(t, inbox.IsInfrastructure(err), "%v", err)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestTheIsolationLevelIsNotTheServersDefault(t *testing.T) {
	for _, name := range []string{"postgres", "pgx"} {
		t.Run(name, func(t *testing.T) {
			migrated, dsn := testkit.MigratedDatabase(t)
			_, err := migrated.Exec(`do $$ begin
				execute format('alter database %I set default_transaction_isolation = %L', current_database(), 'serializable'); end $$`)
			require.NoError(t, err)
			db := testkit.Open(t, name, dsn)
			var level string
			require.NoError(t, db.QueryRow("select current_setting('transaction_isolation')").Scan(&level))
			require.Equal(t, "serializable", level)
			store, err := inbox.NewStore(db, inbox.Config{})
			require.NoError(t, err)
			isReadCommitted := func(ctx context.Context, tx *sql.Tx) error {
				err := tx.QueryRowContext(ctx, "select current_setting('transaction_isolation')").Scan(&level)
				require.Equal(t, "read committed", level)
				return err
			}
			_, err = store.Once(t.Context(), paid("e-1"), inbox.Limits{}, isReadCommitted)
			require.NoError(t, err)
			_, err = store.Bury(t.Context(), paid("e-2"), inbox.Death{}, func(ctx context.Context, tx *sql.Tx, _ int) error {
				return isReadCommitted(ctx, tx)
			})
			require.NoError(t, err)
		})
	}
}
