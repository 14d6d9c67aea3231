package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lib/pq"
)

//go:embed rights.sql
var rightsSQL string

// needed are the rights that each purpose has to have. A table's are "table: RIGHTS", a function's "function()", a sequence's
// "sequence", all in the schema, apart from functions of PostgreSQL, which begin with pg_.
var needed = map[string][]string{
	ForWriter: {
		"outbox: SELECT INSERT", "aggregate_version: SELECT INSERT UPDATE", "clock()",
	},
	ForRelay: {
		"outbox: SELECT", "outbox_receipt: SELECT INSERT", "outbox_relay: SELECT INSERT UPDATE DELETE", "outbox_shard: SELECT UPDATE",
		"outbox_parked: SELECT INSERT UPDATE DELETE", "outbox_lane: SELECT INSERT UPDATE DELETE", "outbox_pause: SELECT",
		"outbox_control: SELECT", "schema_version: SELECT", "sequence", "clock()", "anchor()",
	},
	ForConsumer: {
		"inbox: SELECT INSERT UPDATE", "clock()",
	},
	ForOperator: {
		"outbox: SELECT", "outbox_receipt: SELECT", "outbox_relay: SELECT", "outbox_shard: SELECT", "outbox_lane: SELECT",
		"outbox_parked: SELECT UPDATE", "outbox_pause: SELECT INSERT DELETE", "outbox_control: SELECT UPDATE", "audit: SELECT INSERT",
		"inbox: SELECT UPDATE", "schema_version: SELECT", "clock()",
	},
}

// anchorFunctions are what anchor() calls with the rights of its caller.
var anchorFunctions = []string{"anchor()", "pg_control_system()", "pg_walfile_name(pg_lsn)", "pg_current_wal_insert_lsn()"}

var rights = subject{
	names: []string{"rights.relay", "rights.writer", "rights.consumer", "rights.operator", "rights.anchor"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		var found []Check
		for _, purpose := range Purposes {
			lacking, err := e.lacking(ctx, needed[purpose])
			if err != nil {
				return nil, err
			}
			found = append(found, e.purpose("rights."+purpose, purpose, lacking))
		}
		lacking, err := e.lacking(ctx, anchorFunctions)
		if err != nil {
			return nil, err
		}
		return append(found, e.purpose("rights.anchor", ForRelay, lacking)), nil
	},
}

func (e *examination) purpose(name, purpose string, lacking []string) Check {
	missing := strings.Join(lacking, ", ")
	switch {
	case len(lacking) == 0:
		return ok(name, "this role has all that a %s needs of these", purpose)
	case slices.Contains(e.config.For, purpose):
		return failed(name, "this role lacks %s: grant it, as the owner of the tables", missing)
	}
	return ok(name, "this role lacks %s, which only a %s needs: with --for %s that is a failure", missing, purpose, purpose)
}

// lacking returns those of the rights that the connected role does not have.
func (e *examination) lacking(ctx context.Context, rights []string) ([]string, error) {
	var kinds, objects, privileges []string
	add := func(kind, object, privilege string) {
		kinds, objects, privileges = append(kinds, kind), append(objects, object), append(privileges, privilege)
	}
	add("schema", e.config.Schema, "USAGE")
	for _, right := range rights {
		table, list, isTable := strings.Cut(right, ": ")
		switch {
		case isTable:
			for _, privilege := range strings.Fields(list) {
				add("table", e.schema()+"."+table, privilege)
			}
		case right == "sequence":
			// To look at it, which either right allows, is all.
			add("sequence", e.schema()+".outbox", "USAGE, SELECT")
		case strings.HasPrefix(right, "pg_"):
			add("function", right, "EXECUTE")
		default:
			add("function", e.schema()+"."+right, "EXECUTE")
		}
	}
	rows, err := e.DB.QueryContext(ctx, rightsSQL, pq.Array(kinds), pq.Array(objects), pq.Array(privileges))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var lacking []string
	for rows.Next() {
		var object, privilege string
		if err := rows.Scan(&object, &privilege); err != nil {
			return nil, err
		}
		lacking = append(lacking, fmt.Sprintf("%s on %s", privilege, object))
	}
	return lacking, rows.Err()
}
