package doctor

import (
	"context"
	"database/sql"
	_ "embed"
)

var (
	//go:embed overlooked.sql
	overlookedSQL string
	//go:embed by_index.sql
	byIndexSQL string
)

var shards = subject{
	names: []string{"outbox.shards", "outbox.suspects"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		registered, err := e.operator.Relays(ctx)
		if err != nil {
			return nil, err
		}
		live := map[string]bool{}
		for _, r := range registered {
			live[r.RelayID] = r.Live
		}
		all, err := e.operator.Shards(ctx)
		if err != nil {
			return nil, err
		}
		unowned, waiting, suspects, example := 0, int64(0), 0, ""
		for _, s := range all {
			waiting += s.Lag
			if !live[s.RelayID] {
				unowned++
			}
			if s.Suspect != "" {
				suspects, example = suspects+1, s.Suspect
			}
		}
		found := []Check{ok("outbox.shards", "%d, each with a live owner; events that wait, up to 1000 a shard looked at: %d", len(all), waiting)}
		if unowned > 0 {
			found[0] = warning("outbox.shards", "%d of %d have no live owner, events that wait: %d: start \"millrace run\"; a live relay takes them within its lease", unowned, len(all), waiting)
		}
		if suspects > 0 {
			return append(found, warning("outbox.suspects", "events that may take their relays down: %d, such as %s: look at the relays' last words, and at \"millrace outbox show\"", suspects, example)), nil
		}
		return append(found, ok("outbox.suspects", "no event is suspected of taking relays down")), nil
	},
}

// overlooked looks for what the relay's sweep looks for.
var overlooked = subject{
	names: []string{"outbox.overlooked"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		events, err := e.countOverlooked(ctx)
		if err != nil {
			return nil, err
		}
		if events > 0 {
			return []Check{warning("outbox.overlooked", "%d below the frontier are neither sent nor parked: a live relay finds them within its sweep interval, if they stay, their rows were not written by this cluster's transactions", events)}, nil
		}
		return []Check{ok("outbox.overlooked", "none among the newest 1000 settled positions of each shard")}, nil
	},
}

func (e *examination) countOverlooked(ctx context.Context) (events int, err error) {
	tx, err := e.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	if _, err := tx.ExecContext(ctx, byIndexSQL); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, e.sql(overlookedSQL)).Scan(&events)
	return events, err
}
