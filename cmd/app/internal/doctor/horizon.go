package doctor

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strings"
	"time"
)

// maxHolders is how many of those who hold the horizon back are named.
const maxHolders = 3

var (
	//go:embed horizon.sql
	horizonSQL string
	//go:embed prepared.sql
	preparedSQL string
)

// holder is who keeps the horizon where it is.
type holder struct {
	who string
	age time.Duration
}

var horizon = subject{
	names: []string{"horizon.transactions"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		const name = "horizon.transactions"
		rows, err := e.DB.QueryContext(ctx, horizonSQL)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var holders []holder
		hidden := 0
		for rows.Next() {
			var pid int
			var application, database, state string
			var writes bool
			var age sql.NullInt64
			if err := rows.Scan(&pid, &application, &database, &state, &writes, &age); err != nil {
				return nil, err
			}
			if !age.Valid {
				hidden++
				continue
			}
			does := "reads"
			if writes {
				does = "writes"
			}
			holders = append(holders, holder{fmt.Sprintf("pid %d (%s in %s, %s, %s)", pid, application, database, state, does), milliseconds(age.Int64)})
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		check := e.holding(name, holders,
			"while a writing one is open relays look for its events again and again, and dead rows stay: end it with pg_terminate_backend(pid), and set idle_in_transaction_session_timeout")
		if hidden > 0 {
			check.Detail += fmt.Sprintf("; of %d more this role may not see the age: grant it pg_read_all_stats", hidden)
		}
		return []Check{check}, nil
	},
}

var prepared = subject{
	names: []string{"horizon.prepared"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		rows, err := e.DB.QueryContext(ctx, preparedSQL)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var holders []holder
		for rows.Next() {
			var gid, database string
			var age int64
			if err := rows.Scan(&gid, &database, &age); err != nil {
				return nil, err
			}
			holders = append(holders, holder{fmt.Sprintf("%q in %s", gid, database), milliseconds(age)})
		}
		return []Check{e.holding("horizon.prepared", holders,
			"a prepared transaction that nobody finishes holds the horizon back for ever: commit prepared or rollback prepared it")}, rows.Err()
	},
}

// holding judges the oldest of those that hold the horizon back; they come oldest first.
func (e *examination) holding(name string, holders []holder, remedy string) Check {
	if len(holders) == 0 {
		return ok(name, "nobody holds the horizon back")
	}
	if holders[0].age <= e.config.LongTransaction {
		return ok(name, "the oldest is %s old, a warning from %s on", rounded(holders[0].age), e.config.LongTransaction)
	}
	var named []string
	for _, h := range holders[:min(len(holders), maxHolders)] {
		if h.age > e.config.LongTransaction {
			named = append(named, fmt.Sprintf("%s for %s", h.who, rounded(h.age)))
		}
	}
	return warning(name, "%s: %s", strings.Join(named, ", "), remedy)
}

func rounded(d time.Duration) time.Duration {
	if d < time.Minute {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
