package outbox_test

import (
	"os"
	"strings"
	"testing"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// Looking is done when there is a backlog: it must not begin with all that was ever sent. The planner knows nothing of the
// tables at first, and what a bulk import made of them later.
func TestOperatorLooksAtNoMoreThanWhatWaits(t *testing.T) {
	const sent = 95_000
	db := testkit.Migrated(t)
	exec(t, db, `insert into millrace.outbox (event_id, topic, partition_key)
		select 'event-' || n, case when mod(n, 100) = 0 then 'held' else 'orders' end, mod(n, 1000) from generate_series(1, 100000) n`)
	exec(t, db, `insert into millrace.outbox_receipt (shard, position, attempts, claim_version)
		select shard, position, 1, 1 from millrace.outbox where position <= $1`, sent)
	exec(t, db, `insert into millrace.outbox_parked (shard, position, event_id, topic, partition_key, state, blocks)
		select shard, position, event_id, topic, partition_key, 'blocked', true from millrace.outbox where position > $1 + 3000`, sent)
	exec(t, db, `insert into millrace.outbox_lane (shard, topic, frontier_snapshot, frontier_position, held, reason)
		select shard, 'held', pg_current_snapshot(), $1, true, 'paused' from millrace.outbox_shard`, sent-5000)
	exec(t, db, `update millrace.outbox_shard set frontier_snapshot = pg_current_snapshot(), frontier_position = $1`, sent)
	plan := func(file string, replacements ...string) string {
		t.Helper()
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		statement := strings.NewReplacer(append(replacements, "{{schema}}", "millrace")...).Replace(string(content))
		rows, err := db.QueryContext(t.Context(), "explain "+statement)
		require.NoError(t, err)
		defer rows.Close()
		var lines []string
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			lines = append(lines, line)
		}
		require.NoError(t, rows.Err())
		return strings.Join(lines, "\n")
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			exec(t, db, "analyze millrace.outbox, millrace.outbox_receipt, millrace.outbox_parked")
		}
		totals, shards := plan("operator_totals.sql"), plan("operator_shards.sql", "$1", "1000")
		event := plan("operator_event.sql", "$1", pq.QuoteLiteral("{event-7}"), "$2", "true")
		for _, p := range []string{totals, shards, event} {
			require.NotRegexp(t, `Seq Scan on outbox( |$)`, p)
		}
		// What was sent is counted, and not joined.
		require.LessOrEqual(t, strings.Count(totals, "Seq Scan on outbox_receipt"), 1, totals)
		require.NotContains(t, shards, "Seq Scan on outbox_receipt")
	}
}
