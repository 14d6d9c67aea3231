package inbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"

	"github.com/millrace-go/millrace/event"
)

var (
	// ErrInfrastructure marks an error that says nothing about the event: the database was away, overloaded or chose this
	// transaction as the loser. The event is to be delivered again, and no attempt counts.
	ErrInfrastructure = errors.New("infrastructure")
	// ErrOutcomeUnknown says that the answer to COMMIT was lost. The next delivery finds out. It comes with ErrInfrastructure.
	ErrOutcomeUnknown = errors.New("outcome of the commit is unknown")
)

// IsInfrastructure says whether err is an outage rather than a failure: ErrInfrastructure, a lost or refused connection
// (*net.OpError included, whoever made the connection), or one of PostgreSQL's conditions of that kind. What
// event.Permanent marked never is, and neither is an ended context: decide that by the context itself.
func IsInfrastructure(err error) bool {
	switch {
	case err == nil, event.IsPermanent(err):
		return false
	case errors.Is(err, ErrInfrastructure):
		return true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	}
	if state, ok := sqlState(err); ok {
		return infrastructureState(state)
	}
	var network *net.OpError
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.As(err, &network)
}

func sqlState(err error) (string, bool) {
	var e interface{ SQLState() string }
	if errors.As(err, &e) && len(e.SQLState()) == 5 {
		return e.SQLState(), true
	}
	return "", false
}

func infrastructureState(state string) bool {
	switch state[:2] {
	case "08", // connection
		"28", // authorization: of the connection, never of an event
		"53", // out of connections, memory or disk
		"58": // system error
		return true
	}
	switch state {
	case "25006", // read-only: a standby, or a primary that became one
		"25P03", "25P04", // transaction cut off by its time limits
		"40001", "40P01", // lost a race
		"55P03",                            // lock not available in time
		"57P01", "57P02", "57P03", "57P05": // shutting down, crashed, starting, idle
		return true
	}
	return false
}

// outcomeUnknown says whether an error of COMMIT leaves open what became of the transaction: it is no answer of the server,
// or one that came with the end of the connection.
func outcomeUnknown(err error) bool {
	if errors.Is(err, sql.ErrTxDone) || errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pq.ErrInFailedTransaction) {
		return false
	}
	state, answered := sqlState(err)
	if !answered || state == "40003" { // statement completion unknown
		return true
	}
	switch state[:2] {
	case "08", "57", "58", "XX": // connection, intervention, system, internal
		return true
	}
	return false
}

func infrastructure(doing string, err error) error {
	if state, _ := sqlState(err); state == "42P01" || state == "3F000" {
		return fmt.Errorf("inbox: %s: %w: the tables are missing, run the migrations first: %w", doing, ErrInfrastructure, err)
	}
	return fmt.Errorf("inbox: %s: %w: %w", doing, ErrInfrastructure, err)
}
