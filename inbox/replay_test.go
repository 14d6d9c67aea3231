package inbox_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/inbox"
)

func TestAReplayTakesEffectOnlyWhileItsEventIsParked(t *testing.T) {
	store, _ := newStore(t)
	e := paid("e-1")
	e.Replayed = true
	effects := 0
	handle := func() inbox.Outcome {
		outcome, err := store.Once(t.Context(), e, inbox.Limits{}, func(context.Context, *sql.Tx) error { effects++; return nil })
		require.NoError(t, err)
		return outcome
	}
	giveUp := func() inbox.Outcome {
		outcome, err := store.Bury(t.Context(), e, inbox.Death{LastError: "again"}, func(context.Context, *sql.Tx, int) error { effects++; return nil })
		require.NoError(t, err)
		return outcome
	}
	untouched := func() {
		t.Helper()
		effects = 0
		require.Equal(t, inbox.Duplicate, handle())
		require.Equal(t, inbox.Duplicate, giveUp())
		require.Zero(t, effects)
	}
	untouched() // there is no row
	bury(t, store, paid("e-1"))
	untouched() // dead
	require.NoError(t, store.Replay(t.Context(), "projection", "e-1", operator))
	require.Equal(t, inbox.Applied, giveUp())
	d, err := store.Show(t.Context(), "projection", "e-1")
	require.NoError(t, err)
	require.Equal(t, 2, d.Deaths)
	require.Equal(t, "first", d.FirstError)
	require.Equal(t, "again", d.LastError)
	untouched() // dead again

	require.NoError(t, store.Replay(t.Context(), "projection", "e-1", operator))
	require.Equal(t, inbox.Applied, handle())
	untouched() // done
	d, err = store.Show(t.Context(), "projection", "e-1")
	require.NoError(t, err)
	require.Equal(t, "done", d.State)
	require.Nil(t, d.Headers)
	require.Equal(t, 2, d.Replays)
}

func TestAReplayInProgressElsewhereIsLeftToItsHolder(t *testing.T) {
	store, _ := newStore(t)
	bury(t, store, paid("e-1"))
	require.NoError(t, store.Replay(t.Context(), "projection", "e-1", operator))
	e := paid("e-1")
	e.Replayed = true
	outcome, err := store.Once(t.Context(), e, inbox.Limits{}, func(ctx context.Context, _ *sql.Tx) error {
		second, err := store.Once(ctx, e, inbox.Limits{}, func(context.Context, *sql.Tx) error { panic("handled twice") })
		require.NoError(t, err, "it does not wait for the lock")
		require.Equal(t, inbox.Duplicate, second)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, inbox.Applied, outcome)
}
