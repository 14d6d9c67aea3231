package outbox

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// A stored frontier may lag hours behind. What has a receipt above it is passed over in bounded steps, not sent again.
func TestResumingPassesOverWhatHasAReceiptInWindows(t *testing.T) {
	db := testkit.Migrated(t)
	const events = 2*resumeWindow + 10_000
	run(t, db, `insert into millrace.outbox (event_id, topic, partition_key)
		select 'id-' || n, 'orders', 'key' from generate_series(1, $1) n`, events)
	run(t, db, `insert into millrace.outbox_receipt (shard, position, attempts, claim_version)
		select shard, position, 1, 1 from millrace.outbox where position not in (7, 60000, $1)`, events)
	shards := claimAll(t, newRegister(t, db))
	n := one[int16](t, db, `select min(shard) from millrace.outbox`)
	e := testEngine()
	adopt(e, shards[n].token, shards[n].main.read, shards[n].main.resumeTo)
	require.EqualValues(t, events, e.shards[n].main.resumeTo, "up to the highest position at the claim")
	// Written by an owner before, after the claim looked for the highest position: not seen then, but passed over.
	run(t, db, `insert into millrace.outbox_receipt (shard, position, attempts, claim_version) values ($1, 7, 1, 1)`, n)
	run(t, db, `insert into millrace.outbox (event_id, topic, partition_key) values ('new', 'orders', 'key')`)

	reader := newReader(db, nil, DefaultSchema, one[string](t, db, `select millrace.anchor()`))
	var sent []string
	reads := 0
	for more := true; more; reads++ {
		p, ok := e.planRead()
		require.True(t, ok)
		before := e.shards[n].main.read.position
		res, err := reader.read(t.Context(), p)
		require.NoError(t, err)
		require.Zero(t, res.late)
		more = e.take(p, res)
		require.LessOrEqual(t, e.shards[n].main.read.position-before, int64(resumeWindow))
		for b := e.nextBatch(someTime); b != nil; b = e.nextBatch(someTime) {
			sent = append(sent, ids(b.items)...)
			end(e, b, make([]error, b.Len())...)
		}
		settleAll(e)
		require.Equal(t, e.shards[n].main.read, e.shards[n].main.settled, "each step can be stored")
		require.Less(t, reads, 20)
	}
	require.Equal(t, []string{"id-60000", "id-110000", "new"}, sent)
	require.Zero(t, e.shards[n].main.resumeTo)
}

// In another cluster, as after a restore, the stored frontier means nothing.
func TestStoredFrontierOfAnotherClusterIsNotTrusted(t *testing.T) {
	db := testkit.Migrated(t)
	run(t, db, `update millrace.outbox_shard set frontier_position = 1000, frontier_snapshot = '900:900:', anchor = '1/00000001/0'`)
	insertEvents(t, db, 100)
	for _, s := range claimAll(t, newRegister(t, db)) {
		require.Equal(t, frontier{"1:1:", 0}, s.main.read)
	}
	run(t, db, `update millrace.outbox_relay set lease_until = millrace.clock()`)
	run(t, db, `update millrace.outbox_shard set frontier_position = 1000, frontier_snapshot = '900:900:'`)
	for _, s := range claimAll(t, newRegister(t, db)) {
		require.Equal(t, frontier{"900:900:", 1000}, s.main.read, "but that of this one is, also after a restart")
	}
}
