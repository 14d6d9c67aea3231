package doctor

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strings"
)

// manyTransactions behind is what a replica should not be with its horizon.
const manyTransactions = 1_000_000

var (
	//go:embed slots.sql
	slotsSQL string
	//go:embed standbys.sql
	standbysSQL string
)

var slots = subject{
	names: []string{"horizon.slots"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		return e.replicas(ctx, "horizon.slots", slotsSQL, "replication slots",
			"drop those nobody needs with pg_drop_replication_slot(), or bring their readers back")
	},
}

var standbys = subject{
	names: []string{"horizon.standbys"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		return e.replicas(ctx, "horizon.standbys", standbysSQL, "standbys with feedback",
			"end the long queries there, or turn hot_standby_feedback off")
	},
}

// replicas judges what replication holds back: age is in transactions, null where it holds back nothing.
func (e *examination) replicas(ctx context.Context, name, statement, what, remedy string) ([]Check, error) {
	rows, err := e.DB.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var bad []string
	holding := 0
	for rows.Next() {
		var who string
		var active bool
		var age sql.NullInt64
		if err := rows.Scan(&who, &active, &age); err != nil {
			return nil, err
		}
		if !age.Valid {
			continue
		}
		holding++
		if !active || age.Int64 > manyTransactions {
			state := "active"
			if !active {
				state = "inactive"
			}
			bad = append(bad, fmt.Sprintf("%s (%s, %d transactions behind)", who, state, age.Int64))
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(bad) > 0 {
		return []Check{warning(name, "dead rows stay because of %s: %s", strings.Join(bad[:min(len(bad), maxHolders)], ", "), remedy)}, nil
	}
	return []Check{ok(name, "%s that hold the horizon back: %d", what, holding)}, nil
}
