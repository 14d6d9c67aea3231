package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
)

// minServerVersion is PostgreSQL 14, in the form of server_version_num.
const minServerVersion = 140000

var (
	// ErrShardCount is in the chain of the error of Up when Config.Shards is not the number of shards the database has.
	ErrShardCount = errors.New("shard count differs")

	// ErrServerVersion is in the chain of the error of Up when the server is older than PostgreSQL 14.
	ErrServerVersion = errors.New("PostgreSQL 14 or newer is required")
)

// Up creates the schema if need be and applies what is pending, each migration in a transaction of its own; with nothing
// pending it changes nothing. It may run in any number of processes at once: one works, the others wait, bounded by ctx.
func Up(ctx context.Context, db *sql.DB, config Config) error {
	if err := up(ctx, db, config); err != nil {
		return fmt.Errorf("migrations: up: %w", err)
	}
	return nil
}

func up(ctx context.Context, db *sql.DB, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	shards := config.Shards
	config.setDefaults()
	if err := prepare(ctx, db, config); err != nil {
		return err
	}
	if err := checkShards(ctx, db, config, shards); err != nil {
		return err
	}
	provider, err := newProvider(db, config)
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return err
	}
	// Once more: another process, configured otherwise, may have been first.
	return checkShards(ctx, db, config, shards)
}

// Down undoes the newest applied migration and does nothing when none is applied. It drops the tables of that migration
// WITH ALL EVENTS IN THEM, sent or not. The schema and its version table stay.
func Down(ctx context.Context, db *sql.DB, config Config) error {
	if err := down(ctx, db, config); err != nil {
		return fmt.Errorf("migrations: down: %w", err)
	}
	return nil
}

func down(ctx context.Context, db *sql.DB, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	config.setDefaults()
	f, err := inspect(ctx, db, config)
	if err != nil || !f.versions {
		return err
	}
	provider, err := newProvider(db, config)
	if err != nil {
		return err
	}
	if _, err := provider.Down(ctx); !errors.Is(err, goose.ErrNoNextVersion) {
		return err
	}
	return nil
}

func newProvider(db *sql.DB, config Config) (*goose.Provider, error) {
	store, err := newVersionStore(config)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectCustom, db, scripts{config},
		goose.WithStore(store),
		goose.WithSessionLocker(sessionLock{config}),
		goose.WithLogger(goose.NopLogger()),
		goose.WithDisableGlobalRegistry(true), // the application may have Go migrations of its own
	)
}
