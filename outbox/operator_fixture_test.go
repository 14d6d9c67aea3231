package outbox_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

func newOperator(t *testing.T, db *sql.DB, actor string) *outbox.Operator {
	t.Helper()
	o, err := outbox.NewOperator(db, outbox.OperatorConfig{Actor: actor})
	require.NoError(t, err)
	return o
}

// keyed writes events of one key, in their order, in a transaction of their own.
func keyed(t *testing.T, db *sql.DB, key string, ids ...string) {
	t.Helper()
	write(t, db, func(p *outbox.Publisher) error {
		for n, id := range ids {
			if err := p.Publish("orders", named(id, event.Aggregate("order", key, int64(n+1)), event.Meta("colour", "red"))); err != nil {
				return err
			}
		}
		return nil
	})
}

// park parks an event as a relay does.
func park(t *testing.T, db *sql.DB, id, state string, blocks bool) {
	t.Helper()
	result, err := db.ExecContext(t.Context(), `insert into millrace.outbox_parked
		(shard, position, event_id, topic, partition_key, aggregate_type, aggregate_id, state, blocks, attempts, due_at, stage, error_class, first_error, last_error)
		select shard, position, event_id, topic, partition_key, aggregate_type, aggregate_id, $2::text, $3, 4,
		       case when $2::text in ('scheduled', 'retrying') then millrace.clock() + interval '1 hour' end,
		       'publish', 'transient', 'first', 'last'
		  from millrace.outbox where event_id = $1`, id, state, blocks)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// receipt does what a relay does with a parked event that was sent.
func receipt(t *testing.T, db *sql.DB, id string) {
	t.Helper()
	for _, statement := range []string{
		`insert into millrace.outbox_receipt (shard, position, kafka_partition, kafka_offset, attempts, claim_version)
		 select shard, position, 1, 7, 5, 1 from millrace.outbox where event_id = $1`,
		`delete from millrace.outbox_parked where event_id = $1`,
	} {
		_, err := db.ExecContext(t.Context(), statement, id)
		require.NoError(t, err)
	}
}

// row is what counts of a parked event.
func row(t *testing.T, db *sql.DB, id string) string {
	t.Helper()
	return scanOne[string](t, db, `select concat_ws(' ', state, case when blocks then 'blocks' end, case when due_at <= millrace.clock() then 'due' when due_at is not null then 'later' end,
		attempts, 'r' || revision, nullif(owner, ''), topic_override, metadata_override) from millrace.outbox_parked where event_id = $1`, id)
}

func controlVersion(t *testing.T, db *sql.DB) int {
	t.Helper()
	return scanOne[int](t, db, "select version from millrace.outbox_control")
}

// everything is all that operators can change, as text.
func everything(t *testing.T, db *sql.DB) string {
	t.Helper()
	var parts []string
	for _, table := range []string{"outbox_parked", "outbox_pause", "outbox_control", "audit", "outbox"} {
		parts = append(parts, scanOne[string](t, db, fmt.Sprintf("select coalesce(string_agg(x::text, ';' order by x::text), '') from millrace.%s x", table)))
	}
	return strings.Join(parts, "\n")
}

// oneChange is the only change of an operation on one event.
func oneChange(t *testing.T) func([]outbox.Change, error) outbox.Change {
	t.Helper()
	return func(changes []outbox.Change, err error) outbox.Change {
		t.Helper()
		require.NoError(t, err)
		require.Len(t, changes, 1)
		return changes[0]
	}
}

func events(ids ...string) outbox.Operation { return outbox.Operation{EventIDs: ids, Reason: "mended"} }

func exec(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), statement, args...)
	require.NoError(t, err)
}
