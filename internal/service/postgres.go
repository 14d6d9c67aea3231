package service

import (
	"context"
	"errors"
	"fmt"
)

// Postgres is a running PostgreSQL server of this process. Its methods are safe for concurrent use.
type Postgres struct {
	config  PostgresConfig
	process *process
}

// StartPostgres starts PostgreSQL and returns once it accepts connections. ctx bounds the start alone; the server runs
// until Stop or until this process ends. Only one server at a time can use a state directory: a second start waits a
// few seconds for the first one to end and fails with ErrInUse.
//
// PostgreSQL refuses to run as root. For root the server runs as user 65534, who must be able to enter StateDir.
func StartPostgres(ctx context.Context, config PostgresConfig) (*Postgres, error) {
	config.setDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("service: invalid PostgresConfig: %w", err)
	}
	started, err := startProcess(ctx, spec{
		Kind:      kindPostgres,
		StateDir:  config.StateDir,
		Version:   config.Version,
		Settings:  config.Settings,
		Temporary: config.Temporary,
	})
	if err != nil {
		return nil, fmt.Errorf("service: start PostgreSQL: %w", err)
	}
	return &Postgres{config: config, process: started}, nil
}

// DSN is the address of the database "postgres" as a URL, understood by lib/pq and pgx alike. User and password are
// examples that protect nothing: the server listens on 127.0.0.1 alone.
func (p *Postgres) DSN() string { return p.process.ready.Address }

// Source says which server was taken, for a person: its version and where the binaries come from.
func (p *Postgres) Source() string { return p.process.ready.Source }

// PID is the process id of the server itself, the one to kill in a test.
func (p *Postgres) PID() int { return p.process.ready.PID }

// Config is what the server was started with, defaults included: pass it to StartPostgres to start it again.
func (p *Postgres) Config() PostgresConfig { return p.config }

// Stop ends every connection, shuts the server down and waits for it. It may be called again and then returns the
// same result. A server that was killed before counts as stopped.
func (p *Postgres) Stop() error {
	if err := p.process.stop(); err != nil {
		return fmt.Errorf("service: stop PostgreSQL: %w", err)
	}
	return nil
}

// ErrInUse says that a running service holds the state directory.
var ErrInUse = errors.New("state directory is in use by a running service")
