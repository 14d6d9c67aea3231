package outbox

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

// SQLSTATEs, see PostgreSQL's appendix A.
const (
	uniqueViolation   = "23505"
	undefinedTable    = "42P01"
	undefinedSchema   = "3F000"
	completionUnknown = "40003"
	readOnly          = "25006"
	notPrerequisite   = "55000" // among others: recovery is in progress

	connectionClass   = "08"
	interventionClass = "57" // an administrator or a shutdown
	systemClass       = "58" // outside PostgreSQL
	internalClass     = "XX"
)

// ErrNotMigrated is in the chain of errors about missing tables.
var ErrNotMigrated = errors.New(`the outbox tables are missing: run "millrace migrate up" or call migrations.Up`)

// sqlState returns the SQLSTATE of an error of the server, "" for every other error.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// constraintOf returns the name of the constraint that an error of the server is about.
func constraintOf(err error) string {
	var fromPQ *pq.Error
	if errors.As(err, &fromPQ) {
		return fromPQ.Constraint
	}
	var fromPGX *pgconn.PgError
	if errors.As(err, &fromPGX) {
		return fromPGX.ConstraintName
	}
	return ""
}

// explain adds ErrNotMigrated where it is the reason.
func explain(err error) error {
	switch sqlState(err) {
	case undefinedTable, undefinedSchema:
		return fmt.Errorf("%w: %w", ErrNotMigrated, err)
	}
	return err
}
