package forwarder_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
)

// With bytea_output = escape and binary_parameters, lib/pq reads an empty value as null. On a compacted topic that would be a
// deletion.
func TestEmptyPayloadStaysEmptyWhateverTheOutputFormat(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	execute(t, db, `do $$ begin execute format('alter database %I set bytea_output = escape', current_database()); end $$`)
	for name, open := range map[string]func() *sql.DB{
		"pq":        func() *sql.DB { return testkit.Open(t, "postgres", dsn) },
		"pq-binary": func() *sql.DB { return testkit.Open(t, "postgres", dsn+"&binary_parameters=yes") },
		"pgx":       func() *sql.DB { return testkit.Open(t, "pgx", dsn) },
	} {
		db := open()
		require.Equal(t, "escape", scan[string](t, db, `show bytea_output`))
		publish(t, db, "orders", event.New("e", []byte{}, event.WithID("empty-"+name), event.Aggregate("order", name, 1)),
			event.New("e", []byte{0, 255, '\\'}, event.WithID("bytes-"+name), event.Aggregate("order", name, 2)))
		execute(t, db, `insert into millrace.outbox (event_id, topic, partition_key) values ('null-`+name+`', 'orders', '`+name+`')`)
		broker := &recorder{}
		f := newForwarder(t, db, broker, forwarder.Config{})
		_, err := f.RunOnce(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, broker.got, 3)
		require.NotNil(t, broker.got[0].Payload)
		require.Empty(t, broker.got[0].Payload)
		require.Equal(t, []byte{0, 255, '\\'}, []byte(broker.got[1].Payload))
		require.Nil(t, broker.got[2].Payload)
	}
}
