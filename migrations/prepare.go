package migrations

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

var (
	//go:embed prepare.sql
	prepareSQL string

	//go:embed version_table.sql
	versionTableSQL string
)

// found is what a database has before migrating.
type found struct {
	serverVersion            int
	schema, versions, shards bool
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func inspect(ctx context.Context, db querier, config Config) (found, error) {
	var f found
	err := db.QueryRowContext(ctx, prepareSQL, config.Schema).Scan(&f.serverVersion, &f.schema, &f.versions, &f.shards)
	return f, err
}

// prepare creates the schema and the version table. goose's session lock comes too late for them, and "create ... if not
// exists" fails when it races with itself, so the same lock is taken for one short transaction.
func prepare(ctx context.Context, db *sql.DB, config Config) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it has nothing to do
	if _, err := tx.ExecContext(ctx, "select pg_advisory_xact_lock("+lockKey+")", config.Schema); err != nil {
		return err
	}
	f, err := inspect(ctx, tx, config)
	if err != nil {
		return err
	}
	if f.serverVersion < minServerVersion {
		return fmt.Errorf("%w, this is %d.%d", ErrServerVersion, f.serverVersion/10000, f.serverVersion%10000)
	}
	if !f.schema {
		if _, err := tx.ExecContext(ctx, "create schema "+config.quotedSchema()); err != nil {
			return err
		}
	}
	if !f.versions {
		if _, err := tx.ExecContext(ctx, config.substitute(versionTableSQL)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// checkShards compares the configured number of shards, 0 for any, with the number the database has, if it has any.
func checkShards(ctx context.Context, db querier, config Config, want int) error {
	f, err := inspect(ctx, db, config)
	if err != nil || !f.shards || want == 0 {
		return err
	}
	var have int
	if err := db.QueryRowContext(ctx, config.substitute("select count(*) from {{schema}}.outbox_shard")).Scan(&have); err != nil {
		return err
	}
	if have != want {
		return fmt.Errorf("%w: the database has %d, the configuration says %d", ErrShardCount, have, want)
	}
	return nil
}
