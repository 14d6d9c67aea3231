package outbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// What a statement returns is what was written, null and empty told apart.
func TestEventComesBackFromItsRecordToTheByte(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	run(t, db, `insert into millrace.outbox (event_id, topic, kind, aggregate_type, aggregate_id, aggregate_version, event_type, event_version, tenant, partition_key, payload, metadata, created_at)
		values ('full', 'orders', 'command', 'order', 'ключ', 9007199254740993, 'order.paid', 7, 'acme', '', '\x00ff', '{"a": "\u00e9", "b": null}', '2026-01-02 03:04:05.000006Z'),
		       ('bare', 'orders', 'fact', null, null, null, '', 1, null, null, null, '{}', now()), ('empty', 'orders', 'fact', null, null, null, '', 1, null, 'k', '', '{}', now())`)
	for _, driver := range []string{"postgres", "pgx"} {
		db := testkit.Open(t, driver, dsn)
		read := func(id string) *item {
			raw := one[[]byte](t, db, loadSQL(`select record_send(row({{event}})) from {{schema}}.outbox where event_id = $1`, DefaultSchema), id)
			r, err := readWireRow(raw)
			require.NoError(t, err)
			i := r.event()
			require.NoError(t, r.end())
			return i
		}
		i := read("full")
		require.Equal(t, one[int64](t, db, `select position from millrace.outbox where event_id = 'full'`), i.position)
		require.Equal(t, one[int16](t, db, `select shard from millrace.outbox where event_id = 'full'`), i.stored.shard)
		i.stored.shard, i.createdAt = 0, i.createdAt.UTC()
		require.JSONEq(t, `{"a": "é", "b": null}`, string(i.metadata))
		want := stored{eventID: "full", topic: "orders", kind: "command", aggregateType: "order", aggregateID: "ключ", aggregateVersion: 9007199254740993,
			eventType: "order.paid", eventVersion: 7, tenant: "acme", payload: []byte{0, 255}, metadata: i.metadata, createdAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}
		want.partitionKey.Valid = true
		require.Equal(t, want, i.stored)
		i = read("bare")
		require.Nil(t, i.payload)
		require.False(t, i.partitionKey.Valid)
		require.Nil(t, i.metadata)
		i = read("empty")
		require.Equal(t, []byte{}, i.payload)
		require.Equal(t, "k", i.partitionKey.String)
	}
}

func FuzzWireRow(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 4, 0, 0, 0, 7})
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 25, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := readWireRow(raw)
		if err != nil {
			require.ErrorIs(t, err, errWire)
			return
		}
		_ = r.event()
		if r.end() == nil {
			require.Equal(t, 15, r.n)
		}
	})
}
