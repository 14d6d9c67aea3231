package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
)

func TestReplayIsForDeadLettersAlone(t *testing.T) {
	store, db := newStore(t)
	require.ErrorIs(t, store.Replay(t.Context(), "projection", "e-1", operator), inbox.ErrNotFound)
	require.ErrorIs(t, store.Replay(t.Context(), "projection", "\x00", operator), inbox.ErrNotFound)
	_, err := store.Once(t.Context(), paid("e-1"), inbox.Limits{}, func(context.Context, *sql.Tx) error { return nil })
	require.NoError(t, err)
	require.ErrorIs(t, store.Replay(t.Context(), "projection", "e-1", operator), inbox.ErrNotDead)
	bury(t, store, paid("e-2"))
	err = store.Replay(t.Context(), "projection", "e-2", inbox.By{})
	require.ErrorContains(t, err, "Actor")
	require.ErrorContains(t, err, "Reason")

	var wins sync.Map
	var replays sync.WaitGroup
	for i := range 8 {
		replays.Go(func() { wins.Store(i, store.Replay(context.Background(), "projection", "e-2", operator)) })
	}
	replays.Wait()
	won := 0
	wins.Range(func(_, err any) bool {
		if err == nil {
			won++
		} else {
			require.ErrorIs(t, err.(error), inbox.ErrNotDead)
		}
		return true
	})
	require.Equal(t, 1, won)
	var audits int
	require.NoError(t, db.QueryRow("select count(*) from millrace.audit where detail->>'event_id' = 'e-2'").Scan(&audits))
	require.Equal(t, 1, audits)
	d, err := store.Show(t.Context(), "projection", "e-2")
	require.NoError(t, err)
	require.Equal(t, "parked", d.State)
	require.NotNil(t, d.DueAt)
}

func TestListPagesThroughEveryDeadLetterOnce(t *testing.T) {
	for _, name := range []string{"postgres", "pgx"} {
		t.Run(name, func(t *testing.T) {
			migrated, dsn := testkit.MigratedDatabase(t)
			store, err := inbox.NewStore(testkit.Open(t, name, dsn), inbox.Config{})
			require.NoError(t, err)
			for i := range 7 {
				bury(t, store, paid(fmt.Sprintf("e-%d", i)))
			}
			other := paid("e-0")
			other.Consumer, other.Delivery.Topic = "mailer", "mails"
			bury(t, store, other)
			_, err = migrated.Exec("update millrace.inbox set updated_at = now() where event_id < 'e-4'") // ties
			require.NoError(t, err)

			seen := map[string]int{}
			filter := inbox.Filter{Limit: 3}
			for {
				page, err := store.List(t.Context(), filter)
				require.NoError(t, err)
				if len(page) == 0 {
					break
				}
				for _, d := range page {
					seen[d.Consumer+d.EventID]++
					require.Nil(t, d.Payload)
					require.EqualValues(t, len("body of e-0"), d.PayloadBytes)
					require.Equal(t, "last", d.LastError)
				}
				filter.After = page[len(page)-1].Cursor()
			}
			require.Len(t, seen, 8)
			for id, n := range seen {
				require.Equal(t, 1, n, id)
			}
			for want, filter := range map[int]inbox.Filter{
				7: {Consumer: "projection"}, 1: {Topic: "mails"}, 2: {EventID: "e-0"}, 8: {ErrorClass: inbox.ClassTransient}, 0: {ErrorClass: "x"},
			} {
				page, err := store.List(t.Context(), filter)
				require.NoError(t, err)
				require.Len(t, page, want)
			}
		})
	}
	store, _ := newStore(t)
	_, err := store.List(t.Context(), inbox.Filter{Limit: inbox.MaxPage + 1})
	require.ErrorContains(t, err, "Limit")
	_, err = store.List(t.Context(), inbox.Filter{Consumer: "\x00"})
	require.Error(t, err)
}
