package doctor

import (
	"context"
	_ "embed"
)

//go:embed parked.sql
var parkedSQL string

var parked = subject{
	names: []string{"outbox.quarantined", "outbox.retrying"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		rows, err := e.DB.QueryContext(ctx, e.sql(parkedSQL))
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		count, oldest := map[string]int64{}, map[string]int64{}
		for rows.Next() {
			var state string
			var events, age int64
			if err := rows.Scan(&state, &events, &age); err != nil {
				return nil, err
			}
			count[state], oldest[state] = events, age
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		found := []Check{ok("outbox.quarantined", "none"), ok("outbox.retrying", "none; scheduled: %d", count["scheduled"])}
		if n := count["quarantined"]; n > 0 {
			found[0] = warning("outbox.quarantined", "%d, the oldest for %s, events of their keys behind them: %d: see \"millrace outbox list --state quarantined\", mend the cause and \"millrace outbox retry\"",
				n, rounded(milliseconds(oldest["quarantined"])), count["blocked"])
		}
		if n := count["retrying"]; n > 0 {
			found[1] = warning("outbox.retrying", "%d, the oldest for %s: the broker refuses them; see the last errors in \"millrace outbox list --state retrying\"", n, rounded(milliseconds(oldest["retrying"])))
		}
		return found, nil
	},
}
