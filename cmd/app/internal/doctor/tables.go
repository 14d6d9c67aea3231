package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

const (
	// Tables of a few rows that are updated all the time. They are larger only where vacuum can not clean up.
	maxSmallTable = 8 << 20
	// Dead rows from rolled-back transactions are a part of life; this many are not.
	manyDeadRows = 10_000
)

//go:embed tables.sql
var tablesSQL string

// table is what the statistics know of a table.
type table struct {
	name                      string
	autovacuum                bool
	live, dead, updated, size int64
}

var tables = subject{
	names: []string{"tables.autovacuum", "tables.updated", "tables.dead_rows", "tables.bloat"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		rows, err := e.DB.QueryContext(ctx, tablesSQL, e.config.Schema)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var all []table
		running := false
		for rows.Next() {
			var t table
			if err := rows.Scan(&running, &t.name, &t.autovacuum, &t.live, &t.dead, &t.updated, &t.size); err != nil {
				return nil, err
			}
			all = append(all, t)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("schema %s has no tables: see schema.version", e.config.Schema)
		}
		return []Check{autovacuum(running, all), updated(all), deadRows(all), bloat(all)}, nil
	},
}

// listed shows those that it holds for.
func listed(all []table, show func(table) string) string {
	var some []string
	for _, t := range all {
		if text := show(t); text != "" {
			some = append(some, text)
		}
	}
	return strings.Join(some, ", ")
}

func isLog(t table) bool { return t.name == "outbox" || t.name == "outbox_receipt" }

func isSmall(t table) bool {
	return slices.Contains([]string{"outbox_shard", "outbox_relay", "outbox_lane", "outbox_control"}, t.name)
}

func autovacuum(running bool, all []table) Check {
	const name = "tables.autovacuum"
	if !running {
		return warning(name, "autovacuum or track_counts is off: dead rows stay and every poll is slower; turn both on")
	}
	off := listed(all, func(t table) string {
		if t.autovacuum {
			return ""
		}
		return t.name
	})
	if off != "" {
		return warning(name, "disabled for %s: run: alter table ... reset (autovacuum_enabled)", off)
	}
	return ok(name, "enabled for every table")
}

func updated(all []table) Check {
	changed := listed(all, func(t table) string {
		if !isLog(t) || t.updated == 0 {
			return ""
		}
		return fmt.Sprintf("%s %d", t.name, t.updated)
	})
	if changed != "" {
		return warning("tables.updated", "rows that were updated: %s; millrace never does, and a changed event may be sent as it was: find who does", changed)
	}
	return ok("tables.updated", "no row of outbox or outbox_receipt was ever updated")
}

func deadRows(all []table) Check {
	many := listed(all, func(t table) string {
		if !isLog(t) || t.dead < manyDeadRows || t.dead < t.live/5 {
			return ""
		}
		return fmt.Sprintf("%s %d beside %d", t.name, t.dead, t.live)
	})
	if many != "" {
		return warning("tables.dead_rows", "dead rows: %s; many transactions roll back, or vacuum can not remove them: see horizon.*, then vacuum", many)
	}
	return ok("tables.dead_rows", "few in outbox and outbox_receipt")
}

func bloat(all []table) Check {
	large := listed(all, func(t table) string {
		if !isSmall(t) || t.size <= maxSmallTable {
			return ""
		}
		return fmt.Sprintf("%s %d MiB for %d rows", t.name, t.size>>20, t.live)
	})
	if large != "" {
		return warning("tables.bloat", "%s: vacuum could not clean up in time: see horizon.*, then run vacuum full on it", large)
	}
	return ok("tables.bloat", "outbox_shard, outbox_relay, outbox_lane and outbox_control are small")
}
