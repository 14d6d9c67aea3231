package outbox

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// The plan is made once, perhaps while the tables are empty and known to be, and has to do when they have grown.
func TestPlanMadeWhileTheTablesWereEmptyReadsNoWholeTable(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	run(t, db, `vacuum analyze millrace.outbox, millrace.outbox_receipt, millrace.outbox_parked`)
	own, err := newDirect(dsn)
	require.NoError(t, err)
	defer own.close()
	args := literals(t, []any{[]int64{1}, []int64{0}, []int64{1}, []string{"1:1:"}, []int64{10}, []int64{resumeWindow}, 1 << 30, lateLimit, rangeLimit,
		[]string{""}, []string{""}, []int64{0}})
	run(t, own.db, "prepare trap as "+loadSQL(readSQL, DefaultSchema))
	run(t, own.db, "execute trap("+args+")")
	insertEvents(t, db, 1000)
	run(t, db, `insert into millrace.outbox_receipt (shard, position, attempts, claim_version) select shard, position, 1, 1 from millrace.outbox`)
	rows, err := own.db.QueryContext(t.Context(), "explain execute trap("+args+")")
	require.NoError(t, err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	require.NoError(t, rows.Err())
	require.Contains(t, plan.String(), "outbox_receipt_pkey")
	require.NotRegexp(t, `Seq Scan on (outbox|outbox_receipt|outbox_parked) `, plan.String())
	require.NotContains(t, plan.String(), `Index Cond: ("position" = `, "all of an index that begins with another column")
}

// What goes wrong on it costs no event and no more than time.
func TestReadsGoThroughThePoolWhenTheDirectConnectionFails(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	insertEvents(t, db, 10)
	anchor := one[string](t, db, `select millrace.anchor()`)
	shards := claimAll(t, newRegister(t, db))
	other := testkit.Migrated(t) // a server, or a database, that is not the one
	wrong := one[string](t, other, `select current_database()`)
	for name, address := range map[string]string{
		"nobody there": "postgres://u@127.0.0.1:1/d?sslmode=disable", "another database": strings.Replace(dsn, one[string](t, db, `select current_database()`), wrong, 1), "all well": dsn,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another database" {
				promote(t, other)
			}
			own, err := newDirect(address)
			require.NoError(t, err)
			defer own.close()
			reader := newReader(db, own, DefaultSchema, anchor)
			for range 2 {
				res, err := reader.read(t.Context(), plan(shards, 10))
				require.NoError(t, err)
				require.Len(t, res.items, 10)
			}
			require.Equal(t, name != "all well", !own.again.IsZero(), "left alone")
		})
	}
}

func TestDirectURLIsNotRepeatedInErrors(t *testing.T) {
	_, err := newDirect("postgres://u:hidden-example@127.0.0.1:port/d")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hidden-example")
}
