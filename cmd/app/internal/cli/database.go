package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/lib/pq" // also the driver "postgres"

	"github.com/millrace-go/millrace/migrations"
)

// dialTimeout bounds the first contact with a server.
const dialTimeout = 10 * time.Second

// openDatabase opens a pool and sees that somebody answers. No error shows the address: it holds the password.
func openDatabase(ctx context.Context, address string) (*sql.DB, error) {
	db, err := sql.Open("postgres", withParameters(address))
	if err != nil {
		return nil, usage{errors.New("database_url: can not be parsed")}
	}
	db.SetMaxIdleConns(16)
	dial, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	// While it logs in, the driver does not look at the context: an interrupt leaves it to connect_timeout.
	answered := make(chan error, 1)
	go func() { answered <- db.PingContext(dial) }()
	select {
	case err = <-answered:
	case <-dial.Done():
		err = dial.Err()
	}
	if err != nil {
		return nil, errors.Join(unopened(err), db.Close())
	}
	return db, nil
}

// unopened tells a server that is away from one that turned the address down: class 28 is a login that failed, 3D000 a
// database that does not exist.
func unopened(err error) error {
	var server *pq.Error
	if errors.As(err, &server) && (server.Code.Class() == "28" || server.Code == "3D000") {
		return usage{fmt.Errorf("database_url: PostgreSQL says: %s", server.Message)}
	}
	return fmt.Errorf("PostgreSQL is %w: %w", errUnreachable, err)
}

// withParameters sets what the address does not say. binary_parameters has the driver send a statement together with its
// parameters. Otherwise it prepares first and executes then, which takes twice as long and, behind a transaction-mode
// pooler, may reach two servers. connect_timeout bounds how long a server that accepts and says nothing is waited for.
func withParameters(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	query := parsed.Query()
	for name, value := range map[string]string{
		"binary_parameters": "yes", "connect_timeout": strconv.Itoa(int(dialTimeout.Seconds())),
	} {
		if !query.Has(name) {
			query.Set(name, value)
		}
	}
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

// listenURL is the address for the connection that the relay is woken on. Another driver makes it, which would do without
// TLS where this one insists on it.
func listenURL(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	query := parsed.Query()
	if !query.Has("sslmode") && query.Get("sslrootcert") != "system" && os.Getenv("PGSSLMODE") == "" {
		query.Set("sslmode", "require")
	}
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
