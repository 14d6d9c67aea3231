package testkit

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
)

// statementTimeout bounds creating and dropping a database.
const statementTimeout = time.Minute

// DB opens a fresh, empty database with lib/pq. It is closed and dropped when the test ends.
func DB(t testing.TB) *sql.DB {
	t.Helper()
	db, _ := Database(t)
	return db
}

// Database is DB together with the database's DSN, for what opens connections of its own.
func Database(t testing.TB) (*sql.DB, string) {
	t.Helper()
	dsn := DSN(t)
	return Open(t, "postgres", dsn), dsn
}

// Open opens a database with the driver "postgres" (lib/pq) or "pgx" and closes it when the test ends.
func Open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() }) // a test may have broken the connections on purpose
	return db
}

// DSN creates a fresh, empty database and returns its address, a URL with sslmode=disable. The database is dropped when
// the test ends, whoever is still connected.
func DSN(t testing.TB) string {
	t.Helper()
	server, err := serverDSN()
	require.NoError(t, err, "PostgreSQL for tests")
	name := uniqueName(t, "test", 63)
	quoted := pq.QuoteIdentifier(name)
	require.NoError(t, execute(server, "create database "+quoted))
	t.Cleanup(func() {
		require.NoError(t, execute(server, fmt.Sprintf("drop database if exists %s with (force)", quoted)))
	})
	dsn, err := url.Parse(server)
	require.NoError(t, err, "MILLRACE_TEST_DATABASE_URL must be a URL")
	dsn.Path = "/" + name
	query := dsn.Query()
	query.Set("sslmode", "disable")
	dsn.RawQuery = query.Encode()
	return dsn.String()
}

// execute runs one statement on a connection of its own, which is gone when it returns.
func execute(dsn, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// uniqueName makes a name of at most limit bytes that is legal for databases, topics and groups and names the test.
func uniqueName(t testing.TB, prefix string, limit int) string {
	legal := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, t.Name())
	id := uuid.NewString()
	random := id[len(id)-12:]
	legal = legal[:min(len(legal), limit-len(prefix)-len(random)-2)]
	return prefix + "-" + legal + "-" + random
}
