package migrations

import (
	"context"

	"github.com/pressly/goose/v3/database"
)

// versionStore is goose's PostgreSQL store over a quoted table name, which goose itself would look up with its quotes on.
type versionStore struct{ database.Store }

func newVersionStore(config Config) (versionStore, error) {
	store, err := database.NewStore(database.DialectPostgres, config.quotedSchema()+".schema_version")
	return versionStore{store}, err
}

// TableExists implements the optional part of goose's store.
func (s versionStore) TableExists(ctx context.Context, db database.DBTxConn) (exists bool, err error) {
	err = db.QueryRowContext(ctx, "select to_regclass($1) is not null", s.Tablename()).Scan(&exists)
	return exists, err
}
