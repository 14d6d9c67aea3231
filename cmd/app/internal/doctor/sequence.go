package doctor

import (
	"context"
	"database/sql"
	_ "embed"
)

//go:embed sequence.sql
var sequenceSQL string

var sequence = subject{
	names: []string{"schema.sequence", "schema.sequence_cache"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		var name string
		var cache int64
		var readable bool
		var last, highest sql.NullInt64
		err := e.DB.QueryRowContext(ctx, e.sql(sequenceSQL), e.config.Schema+".outbox").Scan(&name, &cache, &readable, &last, &highest)
		if err != nil {
			return nil, err
		}
		found := []Check{ok("schema.sequence", "last position handed out: %d, highest in the outbox: %d", last.Int64, highest.Int64)}
		switch {
		case !readable:
			found[0] = skipped("schema.sequence", "this role may not look at %s: grant it SELECT; a relay refuses to start without", name)
		case last.Int64 < highest.Int64:
			found[0] = failed("schema.sequence", "it would hand out %d again, the highest position is %d: with writers stopped, run: select setval('%s', %d)",
				last.Int64+1, highest.Int64, name, highest.Int64)
		}
		if cache != 1 {
			return append(found, failed("schema.sequence_cache", "%d: each connection hands out positions of its own, far from the order of commits; run: alter sequence %s cache 1", cache, name)), nil
		}
		return append(found, ok("schema.sequence_cache", "1")), nil
	},
}
