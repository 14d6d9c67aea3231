package outbox

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

func TestReceiptsUnderAnOldTokenAreNotWritten(t *testing.T) {
	db := testkit.Migrated(t)
	insertEvents(t, db, 20)
	first := newRegister(t, db)
	old := claimAll(t, first)
	second := newRegister(t, db)
	now := claimAll(t, second, first.relayID)
	require.Len(t, now, 64)

	settler := newSettler(db, DefaultSchema, first.anchor)
	mine, err := settler.receipts(t.Context(), items(t, db, old))
	require.NoError(t, err)
	require.Empty(t, mine)
	require.Zero(t, receiptCount(t, db))

	mine, err = settler.receipts(t.Context(), items(t, db, now))
	require.NoError(t, err)
	require.NotEmpty(t, mine)
	require.Equal(t, 20, receiptCount(t, db))
	require.Equal(t, 2, one[int](t, db, `select min(claim_version) from millrace.outbox_receipt`))
}

// A stale owner's frontier must neither be stored nor given back: it may lie ahead of what the new owner has settled.
func TestFrontiersOfAStaleOwnerAreNotStored(t *testing.T) {
	db := testkit.Migrated(t)
	first := newRegister(t, db)
	old := claimAll(t, first)
	second := newRegister(t, db)
	claimAll(t, second, first.relayID)
	settler := newSettler(db, DefaultSchema, first.anchor)
	var ahead []tokenFrontier
	for _, s := range old {
		ahead = append(ahead, tokenFrontier{s.token, frontier{"9:9:", 99}, true})
	}
	require.NoError(t, settler.store(t.Context(), ahead))
	require.NoError(t, settler.release(t.Context(), ahead))
	require.Zero(t, one[int](t, db, `select max(frontier_position) from millrace.outbox_shard`))
	require.Equal(t, 64, one[int](t, db, `select count(*) from millrace.outbox_shard where relay_id = $1`, second.relayID))
}

// The fence: a receipt that meets an uncommitted takeover waits for it, and then writes nothing.
func TestReceiptsThatMeetATakeoverInProgressAreNotWritten(t *testing.T) {
	db := testkit.Migrated(t)
	insertEvents(t, db, 20)
	first := newRegister(t, db)
	old := claimAll(t, first)
	second := newRegister(t, db)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	taken, err := tx.ExecContext(t.Context(), loadSQL(claimSQL, DefaultSchema), second.relayID, newClaimID(), 1000, `{`+first.relayID+`}`, second.anchor)
	require.NoError(t, err)
	n, err := taken.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 64, n)

	type answer struct {
		mine map[int16]bool
		err  error
	}
	answers := make(chan answer, 1)
	acked := items(t, db, old)
	go func() {
		mine, err := newSettler(db, DefaultSchema, first.anchor).receipts(context.Background(), acked)
		answers <- answer{mine, err}
	}()
	waiting(t, db, 1)
	require.NoError(t, tx.Commit())
	got := <-answers
	require.NoError(t, got.err)
	require.Empty(t, got.mine)
	require.Zero(t, receiptCount(t, db))
}

// The other way round: a takeover passes over the shards of receipts that are being written.
func TestTakeoverPassesOverShardsThatAreBeingSettled(t *testing.T) {
	db := testkit.Migrated(t)
	first := newRegister(t, db)
	claimAll(t, first)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), `select from millrace.outbox_shard where shard < 10 for key share`)
	require.NoError(t, err)
	second := newRegister(t, db)
	require.Len(t, claimAll(t, second, first.relayID), 54)
	require.NoError(t, tx.Commit())
	require.Len(t, claimAll(t, second, first.relayID), 10)
}

// Of two relays that claim at once, one must not take from the other what it has just got: the row it saw as free may be
// another's by the time it locks it.
func TestClaimDoesNotTakeWhatWasClaimedWhileItWasOnItsWay(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, db *sql.DB){
		"free shards": func(*testing.T, *sql.DB) {},
		"shards of a dead relay": func(t *testing.T, db *sql.DB) {
			r := newRegister(t, db)
			claimAll(t, r)
			run(t, db, `update millrace.outbox_relay set lease_until = clock_timestamp() - interval '1 s' where relay_id = $1`, r.relayID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := testkit.Migrated(t)
			prepare(t, db)
			slow, quick := newRegister(t, db), newRegister(t, db)
			// The slow one takes its snapshot and stops at the clock, before it locks any shard.
			gate, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer gate.Close()
			_, err = gate.ExecContext(t.Context(), `select pg_advisory_lock(7)`)
			require.NoError(t, err)
			run(t, db, `create or replace function millrace.clock() returns timestamptz language plpgsql volatile as $$ begin
				if current_setting('application_name') = 'slow' then perform pg_advisory_xact_lock_shared(7); end if;
				return clock_timestamp(); end $$`)
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.ExecContext(t.Context(), `set application_name = 'slow'`)
			require.NoError(t, err)
			taken := make(chan int64, 1)
			go func() {
				result, err := conn.ExecContext(context.Background(), loadSQL(claimSQL, DefaultSchema), slow.relayID, newClaimID(), 1000, `{}`, slow.anchor)
				if err != nil {
					taken <- -1
					return
				}
				n, _ := result.RowsAffected()
				taken <- n
			}()
			waiting(t, db, 1)
			require.Len(t, claimAll(t, quick), 64)
			_, err = gate.ExecContext(t.Context(), `select pg_advisory_unlock(7)`)
			require.NoError(t, err)
			require.Zero(t, <-taken)
			require.Equal(t, 64, one[int](t, db, `select count(*) from millrace.outbox_shard where relay_id = $1`, quick.relayID))
		})
	}
}

// Whether a receipt was committed may stay unknown: it is written again.
func TestReceiptsWrittenTwiceAreHarmless(t *testing.T) {
	db := testkit.Migrated(t)
	insertEvents(t, db, 20)
	r := newRegister(t, db)
	acked := items(t, db, claimAll(t, r))
	settler := newSettler(db, DefaultSchema, r.anchor)
	for range 2 {
		mine, err := settler.receipts(t.Context(), acked)
		require.NoError(t, err)
		require.NotEmpty(t, mine)
	}
	require.Equal(t, 20, receiptCount(t, db))
}

func TestReceiptIsNotWrittenForAnotherEventAtThePosition(t *testing.T) {
	db := testkit.Migrated(t)
	insertEvents(t, db, 2)
	r := newRegister(t, db)
	acked := items(t, db, claimAll(t, r))
	run(t, db, `update millrace.outbox set event_id = 'another' where event_id = 'id-2'`)
	mine, err := newSettler(db, DefaultSchema, r.anchor).receipts(t.Context(), acked)
	require.NoError(t, err)
	require.NotEmpty(t, mine)
	require.Equal(t, 1, receiptCount(t, db))
	require.Equal(t, "id-1", one[string](t, db, `select event_id from millrace.outbox_receipt join millrace.outbox using (shard, position)`))
}

func TestNothingWorksUnderAnotherIncarnation(t *testing.T) {
	db := testkit.Migrated(t)
	insertEvents(t, db, 20)
	r := newRegister(t, db)
	shards := claimAll(t, r)
	acked := items(t, db, shards)
	settler := newSettler(db, DefaultSchema, r.anchor)
	promote(t, db)

	_, err := newReader(db, nil, DefaultSchema, r.anchor).read(t.Context(), plan(shards, 10))
	require.ErrorIs(t, err, errAnchor)
	mine, err := settler.receipts(t.Context(), acked)
	require.NoError(t, err)
	require.Empty(t, mine)
	require.Zero(t, receiptCount(t, db))
	ahead := []tokenFrontier{{shards[0].token, frontier{"9:9:", 99}, true}}
	require.NoError(t, settler.store(t.Context(), ahead))
	require.NoError(t, settler.release(t.Context(), ahead))
	require.Zero(t, one[int](t, db, `select max(frontier_position) from millrace.outbox_shard`))
	require.Equal(t, 64, one[int](t, db, `select count(relay_id) from millrace.outbox_shard`))
	c, err := r.renew(t.Context(), []string{})
	require.NoError(t, err)
	require.False(t, c.renewed)
	other := &register{db: db, schema: DefaultSchema, relayID: r.relayID, lease: time.Minute, anchor: r.anchor}
	got, err := other.claim(t.Context(), newClaimID(), 1000, []string{r.relayID})
	require.NoError(t, err)
	require.Empty(t, got)
}

// A lease that ran out is never renewed: its owner may have been replaced.
func TestALeaseThatHasEndedIsNotRenewed(t *testing.T) {
	db := testkit.Migrated(t)
	r := newRegister(t, db)
	claimAll(t, r)
	c, err := r.renew(t.Context(), []string{})
	require.NoError(t, err)
	require.True(t, c.renewed)
	require.Len(t, c.mine, 64)
	run(t, db, `update millrace.outbox_relay set lease_until = millrace.clock() - interval '1 ms'`)
	c, err = r.renew(t.Context(), []string{})
	require.NoError(t, err)
	require.False(t, c.renewed)
	got, err := r.claim(t.Context(), newClaimID(), 1000, []string{})
	require.NoError(t, err)
	require.Empty(t, got, "and claims nothing")

	k := newKeeper(r, false)
	k.extend(time.Now())
	require.ErrorIs(t, k.tick(t.Context()), ErrLeaseLost)
	k.expire(nil)
}

// waiting waits until so many sessions of the database wait for a lock.
func waiting(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return one[int](t, db, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == n
	}, 10*time.Second, 5*time.Millisecond, "nobody waits for a lock")
}
