package forwarder_test

import (
	"strings"
	"testing"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

// A data-only restore or a logical-replication upgrade leaves the sequence behind the rows. A new event that got the
// position of an old one would pass for sent.
func TestSequenceBehindTheTableIsRefusedAndCanBeMended(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &recorder{}
	f := newForwarder(t, db, wire, forwarder.Config{})
	for version := 1; version <= 3; version++ {
		publish(t, db, "orders", orderEvent(1, version))
	}
	sent, err := f.RunOnce(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 3, sent)

	for _, reset := range []string{
		`select setval('millrace.outbox_position_seq', 1)`,
		`alter sequence millrace.outbox_position_seq restart`, // never called: it has no last value
	} {
		execute(t, db, reset)
		_, err = f.RunOnce(t.Context(), 10)
		require.ErrorIs(t, err, outbox.ErrSequenceBehind)
	}
	refused := newForwarder(t, db, wire, forwarder.Config{})
	require.ErrorIs(t, refused.Run(t.Context()), outbox.ErrSequenceBehind)
	require.NoError(t, refused.Close(), "not a minute's wait for what never ran")
	_, remedy, found := strings.Cut(err.Error(), "run: ")
	require.True(t, found, err)
	execute(t, db, remedy)
	publish(t, db, "orders", orderEvent(1, 4))
	sent, err = f.RunOnce(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, sent)
	require.Equal(t, 4, inOrder(t, wire))
}

func TestPositionIsNotGivenTwiceInAShard(t *testing.T) {
	db := testkit.Migrated(t)
	publish(t, db, "orders", orderEvent(1, 1))
	_, err := db.ExecContext(t.Context(), `insert into millrace.outbox (position, event_id, topic, partition_key) overriding system value
		select position, 'again', topic, partition_key from millrace.outbox`)
	var refused *pq.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "outbox_shard_position_key", refused.Constraint)
}
