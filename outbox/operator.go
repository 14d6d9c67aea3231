package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
)

var (
	// ErrNotFound means that there is no such event in the outbox.
	ErrNotFound = errors.New("no such event")

	// ErrNotParked means that the event is not parked: it was sent, or no relay has refused or put off to send it.
	ErrNotParked = errors.New("not parked")

	// ErrWrongState means that the event is parked in a state in which this can not be done. The error says what can.
	ErrWrongState = errors.New("not possible in this state")

	// ErrUnexpectedCount means that not as many events as Operation.Expect says would have changed, so that none was.
	ErrUnexpectedCount = errors.New("not the expected number of events")

	// ErrPaused means that the topic or aggregate is paused already.
	ErrPaused = errors.New("paused already")

	// ErrNotPaused means that the topic or aggregate is not paused.
	ErrNotPaused = errors.New("not paused")
)

var (
	//go:embed operator_audit.sql
	operatorAuditSQL string
	//go:embed operator_control.sql
	operatorControlSQL string
	//go:embed operator_uncompiled.sql
	operatorUncompiledSQL string
)

// Operator is for people: it shows what is in the outbox and changes what relays do with it.
//
// What it changes it changes in one transaction together with the audit and with outbox_control.version, which is how relays
// get to know. Changes to a parked event win over what its relay is about to do, unless that has sent the event already. The
// rows of the outbox never change. An Operator keeps no state of its own and is safe for concurrent use; two that want the
// same event take turns, and the second sees what the first has left.
//
// Errors of the database are passed on; ErrNotMigrated where the tables are missing, ErrOutcomeUnknown where the answer to a
// COMMIT was lost.
type Operator struct {
	db     *sql.DB
	config OperatorConfig
}

// NewOperator makes an Operator on db, which stays the caller's to close. Nothing is read or written.
func NewOperator(db *sql.DB, config OperatorConfig) (*Operator, error) {
	config.setDefaults()
	err := config.Validate()
	if db == nil {
		err = errors.Join(errors.New("the database is missing"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: operator: %w", err)
	}
	return &Operator{db: db, config: config}, nil
}

// operatorReads is a database or a transaction.
type operatorReads interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// operatorRows reads all rows of a statement.
func operatorRows[T any](ctx context.Context, db operatorReads, statement string, scan func(scanner) (T, error), args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	list := []T{}
	for rows.Next() {
		row, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// uncompiled runs f in a transaction for large statements.
func (o *Operator) uncompiled(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error {
	return InTx(ctx, o.db, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, operatorUncompiledSQL); err != nil {
			return err
		}
		return f(ctx, tx)
	})
}

func (o *Operator) sql(statement string) string { return loadSQL(statement, o.config.Schema) }

// audited is one line for the audit.
type audited struct {
	Subject string         `json:"subject"`
	Detail  map[string]any `json:"detail"`
}

// writeDown ends what changes something: with the audit, and with the version that makes relays look.
func (o *Operator) writeDown(ctx context.Context, tx *sql.Tx, action, reason string, lines []audited) error {
	list, err := json.Marshal(lines)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, o.sql(operatorAuditSQL), o.config.Actor, "outbox."+action, reason, string(list)); err != nil {
		return explain(err)
	}
	_, err = tx.ExecContext(ctx, o.sql(operatorControlSQL))
	return explain(err)
}
