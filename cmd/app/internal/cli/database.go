package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	_ "github.com/lib/pq" // driver "postgres"

	"github.com/millrace-go/millrace/migrations"
)

// dialTimeout bounds the first contact with a server.
const dialTimeout = 10 * time.Second

// openDatabase opens a pool and sees that somebody answers. No error shows the address: it holds the password.
func openDatabase(ctx context.Context, address string) (*sql.DB, error) {
	db, err := sql.Open("postgres", inOneRoundTrip(address))
	if err != nil {
		return nil, usage{errors.New("database_url: can not be parsed")}
	}
	db.SetMaxIdleConns(16)
	dial, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := db.PingContext(dial); err != nil {
		return nil, errors.Join(fmt.Errorf("PostgreSQL is %w: %w", errUnreachable, err), db.Close())
	}
	return db, nil
}

// inOneRoundTrip has the driver send a statement together with its parameters. Otherwise it prepares first and executes
// then, which takes twice as long and, behind a transaction-mode pooler, may reach two servers.
func inOneRoundTrip(address string) string {
	const parameter = "binary_parameters"
	parsed, err := url.Parse(address)
	if err != nil || parsed.Query().Has(parameter) {
		return address
	}
	query := parsed.Query()
	query.Set(parameter, "yes")
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

// openMigrated is openDatabase for commands that need the tables.
func openMigrated(ctx context.Context, address, schema string) (*sql.DB, error) {
	db, err := openDatabase(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := requireMigrated(ctx, db, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func requireMigrated(ctx context.Context, db *sql.DB, schema string) error {
	status, err := migrations.Status(ctx, db, migrations.Config{Schema: schema})
	if err != nil {
		return err
	}
	if _, pending := versions(status); pending > 0 {
		return fmt.Errorf(`schema %s lacks %d of %d migrations: run "millrace migrate up" first`, schema, pending, len(status))
	}
	return nil
}

// versions are the newest applied version and how many are pending.
func versions(status []migrations.Migration) (version int64, pending int) {
	for _, m := range status {
		if m.Applied {
			version = max(version, m.Version)
		} else {
			pending++
		}
	}
	return version, pending
}
