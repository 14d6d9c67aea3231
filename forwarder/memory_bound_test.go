package forwarder_test

import (
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
)

const megabyte = 1 << 20

// bigEvents writes events of a megabyte each, of one shard or of many.
func bigEvents(t *testing.T, publish func(statement string, args ...any), n int) {
	t.Helper()
	publish(`insert into millrace.outbox (event_id, topic, partition_key, payload)
		select 'big-' || n, 'orders', 'key-' || n % 5, decode(repeat(md5(n::text), $2::int / 16), 'hex') from generate_series(1, $1) n`, n, megabyte)
}

func TestBigEventsDoNotFillTheMemory(t *testing.T) {
	db := testkit.Migrated(t)
	const events, bound = 64, 4
	bigEvents(t, func(statement string, args ...any) { execute(t, db, statement, args...) }, events)
	var mu sync.Mutex
	var given, most int
	wire := &lanes{}
	wire.before = func(msgs []*message.Message) {
		mu.Lock()
		defer mu.Unlock()
		given += len(msgs)
		most = max(most, given-receipts(t, db))
	}
	config := quick()
	config.MaxUnsettledBytes = bound * megabyte
	run(t, db, wire, config)
	settled(t, db)
	require.Len(t, wire.ids(), events)
	once(t, &wire.recorder)
	require.LessOrEqual(t, most, bound+1, "megabytes read and without a receipt")
}

// Late ones count as well.
func TestBigLateEventsDoNotFillTheMemory(t *testing.T) {
	db := testkit.Migrated(t)
	const events, bound = 30, 3
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	bigEvents(t, func(statement string, args ...any) {
		_, err := tx.ExecContext(t.Context(), statement, args...)
		require.NoError(t, err)
	}, events)
	publish(t, db, "others", firstVersions(1, 300)...)
	wire := &lanes{}
	sent, err := newForwarder(t, db, wire, forwarder.Config{}).RunOnce(t.Context(), 1000)
	require.NoError(t, err)
	require.Equal(t, 300, sent)
	require.NoError(t, tx.Commit())

	var mu sync.Mutex
	var given, most int
	wire.before = func(msgs []*message.Message) {
		mu.Lock()
		defer mu.Unlock()
		given += len(msgs)
		most = max(most, given-(receipts(t, db)-300))
	}
	config := quick()
	config.MaxUnsettledBytes = bound * megabyte
	f := run(t, db, wire, config)
	settled(t, db)
	require.EqualValues(t, events, f.Stats().Late)
	require.LessOrEqual(t, most, bound+1)
	once(t, &wire.recorder)
}

func TestAnEventBeyondTheMemoryBoundGoesAlone(t *testing.T) {
	db := testkit.Migrated(t)
	bigEvents(t, func(statement string, args ...any) { execute(t, db, statement, args...) }, 3)
	wire := &lanes{}
	config := quick()
	config.MaxUnsettledBytes = 1000
	run(t, db, wire, config)
	settled(t, db)
	require.Equal(t, []string{"big-1", "big-2", "big-3"}, wire.ids())
}
