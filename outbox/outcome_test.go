package outbox_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

// waitForLock returns when some session of the database waits for another one.
func waitForLock(t testing.TB, db *sql.DB) {
	t.Helper()
	require.Eventually(t, func() bool {
		return scanOne[int](t, db, `select count(*) from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock'`) > 0
	}, testTimeout, pollInterval)
}

func TestLookupWaitsForTheTransactionInDoubt(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		for id, commit := range map[string]bool{"a": true, "b": false} {
			tx, err := db.Begin()
			require.NoError(t, err)
			require.NoError(t, newPublisher(t, tx).Publish("orders", named(id)))
			type answer struct {
				outcome outbox.Outcome
				err     error
			}
			answers := make(chan answer, 1)
			go func() {
				outcome, err := outbox.Lookup(context.Background(), db, id)
				answers <- answer{outcome, err}
			}()
			waitForLock(t, db)
			require.Empty(t, answers)
			if commit {
				require.NoError(t, tx.Commit())
			} else {
				require.NoError(t, tx.Rollback())
			}
			got := <-answers
			require.NoError(t, got.err)
			require.Equal(t, commit, got.outcome.Committed)
		}
		require.Equal(t, "a", writtenIDs(t, db), "a look-up leaves nothing behind")
	})
}

func TestLookupTellsWhereTheEventIs(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		outcome, err := outbox.Lookup(t.Context(), db, "a")
		require.NoError(t, err)
		require.Equal(t, outbox.Outcome{}, outcome)
		write(t, db, func(p *outbox.Publisher) error { return p.Publish("orders", named("a")) })
		outcome, err = outbox.Lookup(t.Context(), db, "a")
		require.NoError(t, err)
		require.True(t, outcome.Committed)
		require.Equal(t, "orders", outcome.Topic)
		require.Equal(t, scanOne[int64](t, db, "select position from millrace.outbox"), outcome.Position)
		require.Equal(t, scanOne[int](t, db, "select shard from millrace.outbox"), outcome.Shard)
		require.False(t, outcome.CreatedAt.IsZero())
	})
}

func TestLookupEndsWithItsContextAndConcludesNothing(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		tx, err := db.Begin()
		require.NoError(t, err)
		defer tx.Rollback() //nolint:errcheck // the end of the test
		require.NoError(t, newPublisher(t, tx).Publish("orders", named("a")))
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() {
			_, err := outbox.Lookup(ctx, db, "a")
			errs <- err
		}()
		waitForLock(t, db)
		cancel()
		require.Error(t, <-errs)
	})
}

func TestLookupRefusesWhatCanBeNoEventID(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		_, err := outbox.Lookup(t.Context(), db, "")
		require.ErrorIs(t, err, event.ErrInvalid)
	})
}
