package doctor

import (
	"context"
	"database/sql"
	_ "embed"

	"github.com/millrace-go/millrace/migrations"
)

var (
	//go:embed newest.sql
	newestSQL string
	//go:embed shards.sql
	shardsSQL string
)

var schema = subject{
	names: []string{"schema.version", "schema.shards"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		version, err := e.schemaVersion(ctx)
		if err != nil {
			return nil, err
		}
		shards, err := e.shardCount(ctx)
		if err != nil {
			shards = skipped("schema.shards", "%s", e.reason(ctx, err))
		}
		return []Check{version, shards}, nil
	},
}

func (e *examination) schemaVersion(ctx context.Context) (Check, error) {
	const name = "schema.version"
	status, err := migrations.Status(ctx, e.DB, migrations.Config{Schema: e.config.Schema})
	if err != nil {
		return Check{}, err
	}
	known, pending := status[len(status)-1].Version, 0
	for _, m := range status {
		if !m.Applied {
			pending++
		}
	}
	if pending == len(status) {
		return failed(name, "schema %s has no tables: run \"millrace migrate up\"", e.config.Schema), nil
	}
	var newest int64
	if err := e.DB.QueryRowContext(ctx, e.sql(newestSQL)).Scan(&newest); err != nil {
		return Check{}, err
	}
	switch {
	case newest > known:
		return failed(name, "version %d is newer than this program's %d: use the program that migrated it, or a newer one", newest, known), nil
	case pending > 0:
		return failed(name, "version %d, pending: %d: run \"millrace migrate up\"", newest, pending), nil
	}
	return ok(name, "version %d, nothing is pending", newest), nil
}

// shardCount compares the three places that know how many shards there are: rows, their constraint, and the expression that
// gives an event its shard.
func (e *examination) shardCount(ctx context.Context) (Check, error) {
	const name = "schema.shards"
	var rows int
	var complete bool
	var checked, generated sql.NullInt64
	if err := e.DB.QueryRowContext(ctx, e.sql(shardsSQL), e.config.Schema).Scan(&rows, &complete, &checked, &generated); err != nil {
		return Check{}, err
	}
	switch {
	case !checked.Valid || !generated.Valid:
		return warning(name, "rows: %d, but the constraint of outbox_shard or the expression of outbox.shard is not the one that was migrated: compare with \"millrace migrate sql\"", rows), nil
	case !complete || int64(rows) != checked.Int64 || int64(rows) != generated.Int64:
		return failed(name, "rows: %d, constraint: %d, events are spread over: %d: events of a shard without row are never sent; restore the rows 0 to %d of outbox_shard",
			rows, checked.Int64, generated.Int64, generated.Int64-1), nil
	}
	return ok(name, "%d, in rows, constraint and generated column", rows), nil
}
