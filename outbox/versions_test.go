package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

func TestConcurrentWritersGetVersionsWithoutGapsInPositionOrder(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		const writers, each = 8, 10
		errs := make([]error, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for range each {
					errs[w] = outbox.InTx(context.Background(), db, func(ctx context.Context, tx *sql.Tx) error {
						version, err := outbox.NextVersion(ctx, tx, "order", "1")
						if err != nil {
							return err
						}
						return newPublisher(t, tx).Publish("orders", named(fmt.Sprint("e", version), event.Aggregate("order", "1", version)))
					})
					if errs[w] != nil {
						return
					}
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		want := ""
		for v := 1; v <= writers*each; v++ {
			want += fmt.Sprint("e", v, " ")
		}
		require.Equal(t, want, writtenIDs(t, db)+" ")
	})
}

func TestVersionOfARolledBackTransactionIsHandedOutAgain(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		next := func(commit bool) (version int64) {
			tx, err := db.Begin()
			require.NoError(t, err)
			version, err = outbox.NextVersion(t.Context(), tx, "order", "1")
			require.NoError(t, err)
			if commit {
				require.NoError(t, tx.Commit())
			} else {
				require.NoError(t, tx.Rollback())
			}
			return version
		}
		require.Equal(t, []int64{1, 1, 2, 2}, []int64{next(false), next(true), next(false), next(true)})
	})
}

func TestNextVersionRefusesBadNamesAndSparesTheTransaction(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		require.NoError(t, outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
			for _, id := range []string{"", "\xff", "a\x00b", string(make([]byte, 256))} {
				_, err := outbox.NextVersion(ctx, tx, "order", id)
				require.ErrorIs(t, err, event.ErrInvalid)
				_, err = outbox.NextVersion(ctx, tx, id, "1")
				require.ErrorIs(t, err, event.ErrInvalid)
			}
			_, err := outbox.NextVersion(ctx, tx, "order", "1")
			return err
		}))
	})
}

func TestUpdateVersionedLetsOneOfTwoWritersThrough(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		_, err := db.Exec("create table orders (id int, version int); insert into orders values (1, 1), (2, 1), (2, 1)")
		require.NoError(t, err)
		update := func(ctx context.Context, tx *sql.Tx, id int) error {
			return outbox.UpdateVersioned(ctx, tx, "update orders set version = version + 1 where id = $1 and version = $2", id, 1)
		}
		first, err := db.Begin()
		require.NoError(t, err)
		require.NoError(t, update(t.Context(), first, 1))
		second := make(chan error, 1)
		go func() {
			second <- outbox.InTx(context.Background(), db, func(ctx context.Context, tx *sql.Tx) error { return update(ctx, tx, 1) })
		}()
		waitForLock(t, db)
		require.NoError(t, first.Commit())
		require.ErrorIs(t, <-second, outbox.ErrVersionConflict)
		require.Equal(t, 2, scanOne[int](t, db, "select version from orders where id = 1"))

		require.NoError(t, outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
			require.ErrorIs(t, update(ctx, tx, 1), outbox.ErrVersionConflict)
			_, err := tx.Exec("update orders set version = 7 where id = 1")
			return err
		}), "the transaction goes on after a version conflict")

		err = outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error { return update(ctx, tx, 2) })
		require.ErrorContains(t, err, "2 rows")
		require.NotErrorIs(t, err, outbox.ErrVersionConflict)
	})
}
