package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/pressly/goose/v3/database"
)

// Migration is one step of the schema and whether a database has it.
type Migration struct {
	Version   int64
	Name      string // the file it comes from
	Applied   bool   // false = pending
	AppliedAt time.Time
}

// Status lists all migrations in the order they are applied in. It changes nothing, also on an empty database, and waits for
// nobody.
func Status(ctx context.Context, db *sql.DB, config Config) ([]Migration, error) {
	migrations, err := status(ctx, db, config)
	if err != nil {
		return nil, fmt.Errorf("migrations: status: %w", err)
	}
	return migrations, nil
}

func status(ctx context.Context, db *sql.DB, config Config) ([]Migration, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.setDefaults()
	provider, err := newProvider(db, config)
	if err != nil {
		return nil, err
	}
	var migrations []Migration
	for _, source := range provider.ListSources() {
		migrations = append(migrations, Migration{Version: source.Version, Name: path.Base(source.Path)})
	}
	// goose's own status takes the lock and creates the version table.
	f, err := inspect(ctx, db, config)
	if err != nil || !f.versions {
		return migrations, err
	}
	store, err := newVersionStore(config)
	if err != nil {
		return nil, err
	}
	for i := range migrations {
		m := &migrations[i]
		result, err := store.GetMigration(ctx, db, m.Version)
		if errors.Is(err, database.ErrVersionNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m.Applied, m.AppliedAt = result.IsApplied, result.Timestamp
	}
	return migrations, nil
}
