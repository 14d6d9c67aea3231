package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
)

// newRegister enters a relay into the register.
func newRegister(t *testing.T, db *sql.DB) *register {
	t.Helper()
	r := &register{db: db, schema: DefaultSchema, relayID: uuid.NewString(), lease: time.Minute}
	require.NoError(t, r.enter(t.Context(), "test"))
	return r
}

// claimAll claims every shard that is free, or of a relay among the dead.
func claimAll(t *testing.T, r *register, dead ...string) map[int16]*shard {
	t.Helper()
	got, err := r.claim(t.Context(), newClaimID(), 1000, append([]string{}, dead...))
	require.NoError(t, err)
	require.NoError(t, r.inspect(t.Context(), got))
	e := newEngine(SubscriberConfig{}, -1)
	for _, c := range got {
		e.adopt(c)
	}
	return e.shards
}

// insertEvents writes events, id-1 and so on, under keys of their own.
func insertEvents(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	run(t, db, `insert into millrace.outbox (event_id, topic, partition_key, payload)
		select 'id-' || n, 'orders', 'key-' || n, 'payload' from generate_series(1, $1) n`, n)
}

// items are the events of the table as a relay holds them, acknowledged by the broker.
func items(t *testing.T, db *sql.DB, shards map[int16]*shard) (items []*item) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `select shard, position, event_id from millrace.outbox order by position`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		i := &item{attempts: 1, receipt: event.Receipt{Partition: 3, Offset: int64(len(items))}}
		require.NoError(t, rows.Scan(&i.stored.shard, &i.position, &i.eventID))
		i.shard = shards[i.stored.shard]
		items = append(items, i)
	}
	require.NoError(t, rows.Err())
	return items
}

func run(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(context.Background(), statement, args...)
	require.NoError(t, err)
}

func one[T any](t *testing.T, db *sql.DB, query string, args ...any) (value T) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(context.Background(), query, args...).Scan(&value))
	return value
}

func receiptCount(t *testing.T, db *sql.DB) int {
	t.Helper()
	return one[int](t, db, `select count(*) from millrace.outbox_receipt`)
}

// plan is a read of all the shards.
func plan(shards map[int16]*shard, wanted int) readPlan {
	p := readPlan{maxBytes: 1 << 30, maxLate: lateLimit}
	for n := range int16(len(shards)) {
		l := shards[n].main
		p.lanes, p.wanted, p.upto, p.epochs = append(p.lanes, l), append(p.wanted, wanted), append(p.upto, l.window()), append(p.epochs, l.epoch)
		p.rows += wanted
	}
	return p
}

func ids(items []*item) []string {
	ids := make([]string, len(items))
	for n, i := range items {
		ids[n] = i.eventID
	}
	return ids
}

func promote(t *testing.T, db *sql.DB) {
	t.Helper()
	run(t, db, fmt.Sprintf(`create or replace function millrace.anchor() returns text language sql volatile as $$ select '%s' $$`, uuid.NewString()))
}

// adopt gives an engine a shard, as a claim does.
func adopt(e *engine, t token, stored frontier, highest int64) {
	e.adopt(claimed{token: t, frontier: stored, highest: highest})
}
