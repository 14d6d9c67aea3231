package inbox_test

import (
	"context"
	"database/sql"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
)

func TestRowAndEffectExistTogetherOrNotAtAll(t *testing.T) {
	for _, name := range []string{"postgres", "pgx"} {
		t.Run(name, func(t *testing.T) {
			migrated, dsn := testkit.MigratedDatabase(t)
			_, err := migrated.Exec("create table effect (n int)")
			require.NoError(t, err)
			store, err := inbox.NewStore(testkit.Open(t, name, dsn), inbox.Config{})
			require.NoError(t, err)
			once := func(misbehave func() error) (inbox.Outcome, error) {
				return store.Once(t.Context(), paid("e-1"), inbox.Limits{}, func(ctx context.Context, tx *sql.Tx) error {
					own, ok := event.TxFromContext(ctx)
					require.True(t, ok)
					require.Same(t, tx, own)
					if _, err := tx.ExecContext(ctx, "insert into effect values (1)"); err != nil {
						return err
					}
					return misbehave()
				})
			}
			rows := func() (n int) {
				require.NoError(t, migrated.QueryRow("select (select count(*) from effect) + (select count(*) from millrace.inbox)").Scan(&n))
				return n
			}
			_, err = once(func() error { return errEffect })
			require.ErrorIs(t, err, errEffect)
			require.False(t, inbox.IsInfrastructure(err))
			require.Zero(t, rows())
			require.PanicsWithValue(t, "x", func() { _, _ = once(func() error { panic("x") }) })
			require.Zero(t, rows())
			var gone sync.WaitGroup
			gone.Go(func() { _, _ = once(func() error { runtime.Goexit(); return nil }) })
			gone.Wait()
			require.Zero(t, rows())
			outcome, err := once(func() error { return nil })
			require.NoError(t, err)
			require.Equal(t, inbox.Applied, outcome)
			require.Equal(t, 2, rows())
			outcome, err = once(func() error { return nil })
			require.NoError(t, err)
			require.Equal(t, inbox.Duplicate, outcome)
			require.Equal(t, 2, rows())
		})
	}
}

func TestTheTimeLimitsOfATransactionHoldFromItsFirstStatement(t *testing.T) {
	for _, name := range []string{"postgres", "pgx"} {
		t.Run(name, func(t *testing.T) {
			_, dsn := testkit.MigratedDatabase(t)
			db := testkit.Open(t, name, dsn)
			db.SetMaxOpenConns(1)
			store, err := inbox.NewStore(db, inbox.Config{})
			require.NoError(t, err)
			show := func(tx interface {
				QueryRow(string, ...any) *sql.Row
			}) string {
				var idle, lock string
				require.NoError(t, tx.QueryRow("select current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout')").Scan(&idle, &lock))
				return idle + " " + lock
			}
			limits := inbox.Limits{HandlerTimeout: 5 * time.Second, LockTimeout: 3 * time.Second}
			_, err = store.Once(t.Context(), paid("e-1"), limits, func(ctx context.Context, tx *sql.Tx) error {
				deadline, ok := ctx.Deadline()
				require.True(t, ok)
				require.WithinDuration(t, time.Now().Add(5*time.Second), deadline, 5*time.Second)
				require.Equal(t, "20s 3s", show(tx))
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, "0 0", show(db), "nothing is left on the session")
		})
	}
}

func TestAnInvalidEventIsRefusedBeforeSQL(t *testing.T) {
	store, _ := newStore(t)
	for name, e := range map[string]inbox.Event{
		"no consumer": {ID: "e"}, "long consumer": {Consumer: strings.Repeat("c", 101), ID: "e"}, "no id": {Consumer: "c"},
		"control": {Consumer: "c\n", ID: "e"}, "long id": {Consumer: "c", ID: strings.Repeat("e", 256)},
	} {
		_, err := store.Once(t.Context(), e, inbox.Limits{}, nil)
		require.ErrorIs(t, err, event.ErrInvalid, name)
		_, err = store.Bury(t.Context(), e, inbox.Death{}, nil)
		require.ErrorIs(t, err, event.ErrInvalid, name)
	}
	_, err := store.Once(t.Context(), paid("e"), inbox.Limits{LockTimeout: -1}, nil)
	require.ErrorContains(t, err, "LockTimeout")
}

func TestAFailedRecordTakesTheDeathBack(t *testing.T) {
	store, _ := newStore(t)
	_, err := store.Bury(t.Context(), paid("e-1"), inbox.Death{}, func(context.Context, *sql.Tx, int) error { return errEffect })
	require.ErrorIs(t, err, errEffect)
	_, err = store.Show(t.Context(), "projection", "e-1")
	require.ErrorIs(t, err, inbox.ErrNotFound)
}
