package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

const backlogRows = 20_000 // the last ones, without receipts

// statement is one of the hot statements with its parameters, and what its plan may touch.
type statement struct {
	name    string
	query   string
	args    []any
	indexes []string
	rows    float64 // read from any one table, at most
	buffers float64
}

// A plan that is good with the first thousand events and reads the whole table with the first million would show in
// production only. Servers choose between a plan for the values at hand and one for all values; neither may be bad.
func TestNoHotStatementReadsOrSortsTheWholeTable(t *testing.T) {
	for name, table := range map[string]struct {
		rows int
		xid  string
	}{
		"many small transactions": {1_000_000, `(700 + n / 3)::text::xid8`},
		"one bulk import":         {200_000, `'700'::xid8`},
	} {
		t.Run(name, func(t *testing.T) {
			db := testkit.Migrated(t)
			began := time.Now()
			load(t, db, table.rows, table.xid)
			t.Logf("loaded %d events in %s", table.rows, time.Since(began))
			statements := hotStatements(t, db, int64(table.rows))
			for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
				for _, s := range statements {
					t.Run(mode+"/"+s.name, func(t *testing.T) { checkPlan(t, db, mode, s) })
				}
			}
		})
	}
}

func load(t *testing.T, db *sql.DB, n int, xid string) {
	t.Helper()
	restore := dropIndexes(t, db)
	run(t, db, fmt.Sprintf(`insert into millrace.outbox (event_id, topic, aggregate_type, aggregate_id, aggregate_version, event_type, partition_key, payload, xid)
		select 'event-' || n, 'orders', 'order', mod(n, 10000), n / 10000 + 1, 'order.changed', mod(n, 10000), decode(repeat('00', 100), 'hex'), %s
		  from generate_series(1, %d) n`, xid, n))
	run(t, db, `insert into millrace.outbox_receipt (shard, position, attempts, claim_version)
		select shard, position, 1, 1 from millrace.outbox where position <= $1`, n-backlogRows)
	restore()
	run(t, db, `insert into millrace.outbox_parked (shard, position, event_id, topic, partition_key, state, blocks, due_at)
		select shard, position, event_id, topic, partition_key, case mod(position, 3) when 0 then 'scheduled' else 'blocked' end,
		       mod(position, 3) > 0, case mod(position, 3) when 0 then now() end
		  from millrace.outbox where position between 10001 and 20000`)
	run(t, db, `delete from millrace.outbox_receipt where position between 10001 and 20000`)
	run(t, db, `vacuum analyze millrace.outbox, millrace.outbox_receipt, millrace.outbox_parked`)
	run(t, db, `insert into millrace.outbox_relay (relay_id, name, lease_ms, lease_until)
		select gen_random_uuid(), 'relay', 10000, millrace.clock() + interval '1 h' from generate_series(1, 3)`)
	run(t, db, `update millrace.outbox_shard s set relay_id = r.relay_id, claim_id = gen_random_uuid(), claim_version = 1
		   from (select relay_id, row_number() over () - 1 as n from millrace.outbox_relay) r where mod(s.shard, 3) = r.n`)
	run(t, db, `analyze millrace.outbox_relay, millrace.outbox_shard`)
}

// dropIndexes drops the indexes of the big tables, because loading is many times faster without, and returns what makes them
// again as they were.
func dropIndexes(t *testing.T, db *sql.DB) (restore func()) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `
		select format('alter table %s drop constraint %I', conrelid::regclass, conname),
		       format('alter table %s add constraint %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
		  from pg_constraint where conrelid in ('millrace.outbox'::regclass, 'millrace.outbox_receipt'::regclass) and contype in ('p', 'u')
		union all
		select format('drop index %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
		  from pg_index where indrelid = 'millrace.outbox'::regclass and not indisunique`)
	require.NoError(t, err)
	defer rows.Close()
	var drops, makes []string
	for rows.Next() {
		var drop, create string
		require.NoError(t, rows.Scan(&drop, &create))
		drops, makes = append(drops, drop), append(makes, create)
	}
	require.NoError(t, rows.Err())
	require.Len(t, drops, 5)
	for _, statement := range drops {
		run(t, db, statement)
	}
	return func() {
		for _, statement := range makes {
			run(t, db, statement)
		}
	}
}

func hotStatements(t *testing.T, db *sql.DB, end int64) []statement {
	t.Helper()
	var shards, from, open, begin, group, wanted, window []int64
	var all, none, topics, held []string
	var well []bool
	var claims, snapshots []string
	var versions []int64
	for n := range int64(64) {
		shards, group, wanted = append(shards, n), append(group, 1), append(wanted, 31)
		from, open, begin, window = append(from, end-backlogRows), append(open, unbounded), append(begin, 0), append(window, resumeWindow)
		snapshots, versions = append(snapshots, "900:900:"), append(versions, 1)
		all, none, topics, held, well = append(all, ""), append(none, ""), append(topics, "orders"), append(held, "orders,refunds"), append(well, true)
		claims = append(claims, one[string](t, db, `select claim_id from millrace.outbox_shard where shard = $1`, n))
	}
	last := make([]int64, len(shards))
	for n := range last {
		last[n] = end
	}
	relay := one[string](t, db, `select relay_id from millrace.outbox_relay limit 1`)
	anchor := one[string](t, db, `select millrace.anchor()`)
	now := one[string](t, db, `select pg_current_snapshot()::text`)
	xmax := one[string](t, db, `select pg_snapshot_xmax(pg_current_snapshot())::text`)
	// A snapshot with transactions in progress, none of which has written events.
	busy := []string{one[string](t, db, `select format('%s:%s:%s,%s,%s', x - 30, x, x - 30, x - 20, x - 10) from (select $1::bigint as x) x`, xmax)}

	acked := struct {
		of, positions, unknown, attempts []int64
		ids, states, topics              []string
		blocks                           []bool
	}{}
	rows, err := db.QueryContext(t.Context(), `select shard, position, event_id from millrace.outbox where position > $1 order by position limit 5000`, end-backlogRows)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var shard, position int64
		var id string
		require.NoError(t, rows.Scan(&shard, &position, &id))
		acked.of, acked.positions, acked.ids = append(acked.of, shard), append(acked.positions, position), append(acked.ids, id)
		acked.unknown, acked.attempts = append(acked.unknown, -1), append(acked.attempts, 1)
		acked.states, acked.topics, acked.blocks = append(acked.states, "quarantined"), append(acked.topics, ""), append(acked.blocks, false)
	}
	require.NoError(t, rows.Err())

	const late, position, receipt = "outbox_xid_position_idx", "outbox_shard_position_key", "outbox_receipt_pkey"
	read := []string{late, position, receipt, "outbox_parked_pkey"}
	with := func(groups int, args ...any) []any {
		highest := make([]int64, groups)
		for n := range highest {
			highest[n] = end
		}
		return append(append(args, 1<<30, lateLimit, rangeLimit, all, none), highest)
	}
	return []statement{
		{"read of a backlog", readSQL, with(1, shards, from, group, busy, wanted, open), read, 64 * 31, 15_000},
		{"read when idle", readSQL, with(1, shards, last, group, busy, wanted, open), read, 100, 1000},
		{"read of many snapshots", readSQL, with(64, shards, last, shardGroups(64), repeated(busy[0], 64), wanted, open), read, 6400, 2500},
		{"read that resumes", readSQL, with(1, shards, begin, group, []string{now}, wanted, window), read, resumeWindow + 64, 6 * resumeWindow},
		{"read beside a held topic", readSQL, []any{shards, from, group, busy, wanted, last, 1 << 30, lateLimit, rangeLimit, all, held, []int64{end}}, read, backlogRows + 64, 4 * backlogRows},
		{"read of a topic", readSQL, []any{shards, from, group, busy, wanted, last, 1 << 30, lateLimit, rangeLimit, topics, none, []int64{end}}, read, backlogRows + 64, 7 * backlogRows},
		{"page of late events", readLateSQL, []any{shards, last, group, busy, now, 0, lateLimit, 1 << 30, all, none, []int64{end}}, read, 6400, 5000},
		{"settle of 5000", settleSQL, []any{shards, claims, versions, anchor, acked.of, acked.positions, acked.ids, acked.unknown, acked.unknown, acked.attempts},
			[]string{position}, 5000, 60_000},
		{"settle of 5000 parked", settleParkedSQL, []any{shards, claims, versions, anchor, acked.of, acked.positions, acked.ids, acked.unknown, acked.unknown, acked.attempts, acked.topics},
			[]string{position}, 5000, 75_000},
		{"park 5000", parkSQL, []any{shards, claims, versions, anchor, "relay", acked.of, acked.positions, acked.ids, acked.states, acked.blocks, acked.attempts,
			acked.unknown, acked.topics, acked.topics, acked.topics, acked.unknown, acked.blocks}, []string{position}, 5000, 200_000},
		{"due", dueSQL, []any{shards, []string{}, parkLimit, 1 << 30, []int64{}, []int64{}, 0}, []string{position}, parkLimit + 1, 20_000},
		{"followers", followersSQL, []any{[]int64{1}, []string{"orders"}, []string{"1"}, parkLimit, 1 << 30, []int64{}, []int64{}, []int64{0}}, []string{position}, parkLimit + 1, 20_000},
		{"blocked keys", keysSQL, []any{shards}, nil, 0, 2000},
		{"control", controlSQL, nil, nil, 0, 10},
		{"sweep", sweepSQL, []any{shards, snapshots, from, 0, sweepWindow, sweepRows, 1 << 30, all, none}, []string{position, receipt}, sweepWindow + 64, sweepWindow / 10},
		{"sweep: lowest position", sweepLowestSQL, []any{shards}, []string{position}, 64, 1000},
		{"claim: highest position", highestSQL, []any{shards}, []string{position}, 64, 1000},
		{"claim", claimSQL, []any{relay, uuid.NewString(), 64, []string{}, anchor}, nil, 0, 2000},
		{"claim: lanes", claimLanesSQL, []any{shards}, nil, 0, 100},
		{"renew", renewSQL, []any{relay, 10_000, anchor, []string{}}, nil, 0, 2000},
		{"store", storeSQL, []any{shards, claims, versions, snapshots, from, anchor, well}, nil, 0, 2000},
		{"save lanes", laneSaveSQL, []any{shards, claims, versions, anchor, topics, snapshots, from, well, repeated("stalled", 64), none, versions}, nil, 0, 4000},
		{"drop lanes", laneDropSQL, []any{shards, claims, versions, anchor, topics}, nil, 0, 4000},
		{"sequence", sequenceSQL, nil, []string{position}, 64, 1000},
	}
}

func shardGroups(n int64) (groups []int64) {
	for g := range n {
		groups = append(groups, g+1)
	}
	return groups
}

func repeated(s string, n int) []string {
	return strings.Split(strings.Repeat(s+" ", n)[:n*(len(s)+1)-1], " ")
}

// planNode is what EXPLAIN says of a step.
type planNode struct {
	Type       string  `json:"Node Type"`
	Table      string  `json:"Relation Name"`
	Index      string  `json:"Index Name"`
	Rows       float64 `json:"Actual Rows"`
	Loops      float64 `json:"Actual Loops"`
	Filtered   float64 `json:"Rows Removed by Filter"`
	Hit        float64 `json:"Shared Hit Blocks"`
	Read       float64 `json:"Shared Read Blocks"`
	Plans      []planNode
	TempBlocks float64 `json:"Temp Written Blocks"`
}

func checkPlan(t *testing.T, db *sql.DB, mode string, s statement) {
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback() //nolint:errcheck // what was explained was also done
	exec := func(statement string) {
		_, err := tx.ExecContext(context.Background(), statement)
		require.NoError(t, err, statement)
	}
	exec("set local plan_cache_mode = " + mode)
	exec("deallocate all")
	exec("prepare hot as " + loadSQL(s.query, DefaultSchema))
	call := "execute hot"
	if len(s.args) > 0 {
		call += "(" + literals(t, s.args) + ")"
	}
	exec(call) // warm
	var out string
	require.NoError(t, tx.QueryRowContext(t.Context(), "explain (analyze, buffers, format json) "+call).Scan(&out))
	var plans []struct {
		Plan planNode
		Time float64 `json:"Execution Time"`
		JIT  any
	}
	require.NoError(t, json.Unmarshal([]byte(out), &plans))
	plan := plans[0].Plan
	buffers := plan.Hit + plan.Read

	var text strings.Builder
	explain := func() string {
		if text.Len() == 0 {
			rows, err := tx.QueryContext(t.Context(), "explain (analyze, buffers) "+call)
			require.NoError(t, err)
			defer rows.Close()
			for rows.Next() {
				var line string
				require.NoError(t, rows.Scan(&line))
				text.WriteString(line + "\n")
			}
			require.NoError(t, rows.Err())
		}
		return text.String()
	}
	var walk func(n planNode)
	walk = func(n planNode) {
		for _, child := range n.Plans {
			walk(child)
			if child.Type == "ModifyTable" { // not among those of the step above
				buffers += child.Hit + child.Read
			}
		}
		if n.Table == "outbox" || n.Table == "outbox_receipt" {
			if n.Type != "ModifyTable" && !strings.HasPrefix(n.Type, "Insert") {
				require.Contains(t, []string{"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}, n.Type, "%s", explainOnce(explain))
				if n.Index != "" { // that of a bitmap is in the step below
					require.Contains(t, s.indexes, n.Index, "%s", explainOnce(explain))
				}
				require.LessOrEqual(t, (n.Rows+n.Filtered)*n.Loops, s.rows, "rows of %s: %s", n.Table, explainOnce(explain))
			}
		}
		require.Zero(t, n.TempBlocks, "%s", explainOnce(explain))
	}
	walk(plan)
	// What runs is planned for its parameters; for any parameters some do cost that much, and so do many snapshots, which only the
	// first reads after claims have.
	if mode == "force_custom_plan" && s.name != "read of many snapshots" {
		require.Nil(t, plans[0].JIT, "compiling takes longer than running: %s", explainOnce(explain))
	}
	t.Logf("%.1f ms, %.0f buffers", plans[0].Time, buffers)
	require.LessOrEqual(t, buffers, s.buffers, "%s", explainOnce(explain))
}

// explainOnce puts off making the text until a message needs it.
type lazy func() string

func (l lazy) String() string { return l() }

func explainOnce(f func() string) fmt.Stringer { return lazy(f) }

func literals(t *testing.T, args []any) string {
	t.Helper()
	list := make([]string, len(args))
	for n, arg := range args {
		switch arg := arg.(type) {
		case nil:
			list[n] = "null"
		case string:
			list[n] = pq.QuoteLiteral(arg)
		case []int64, []string, []bool:
			text, err := pq.Array(arg).Value()
			require.NoError(t, err)
			list[n] = pq.QuoteLiteral(text.(string))
		default:
			list[n] = fmt.Sprint(arg)
		}
	}
	return strings.Join(list, ", ")
}
