package testkit

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/migrations"
)

// Migrated is DB with the tables of this project in the schema "millrace".
func Migrated(t testing.TB) *sql.DB {
	t.Helper()
	db, _ := MigratedDatabase(t)
	return db
}

// MigratedDatabase is Migrated together with the database's DSN, for what opens connections of its own.
func MigratedDatabase(t testing.TB) (*sql.DB, string) {
	t.Helper()
	db, dsn := Database(t)
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	require.NoError(t, migrations.Up(ctx, db, migrations.Config{}))
	return db, dsn
}
