package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"

	"github.com/millrace-go/millrace/event"
)

// ErrOutcomeUnknown means that the answer to a COMMIT was lost: the transaction may or may not have committed. Lookup of an
// event written in it tells which.
var ErrOutcomeUnknown = errors.New("the answer to COMMIT was lost, the transaction may have committed")

// InTx runs fn in a new Read Committed transaction, which the context it passes to fn carries, too: events whose context is
// that one are written in it by a ContextPublisher. It commits when fn returns nil; an error or panic of fn rolls back and
// goes on to the caller unchanged. fn must not end the transaction.
//
// A lost answer to COMMIT is ErrOutcomeUnknown. Nothing is tried again: whether fn may run twice is the caller's decision.
// After any other error nothing has been committed. The end of ctx rolls back.
func InTx(ctx context.Context, db *sql.DB, fn func(ctx context.Context, tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return fmt.Errorf("outbox: begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing to do after COMMIT; before it, the server rolls back by itself if need be
	if err := fn(event.ContextWithTx(ctx, tx), tx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // certainly no COMMIT was sent; an error of Commit would not tell
		return fmt.Errorf("outbox: commit: %w", err)
	}
	err = tx.Commit()
	switch {
	case err == nil:
		return nil
	case rolledBack(err):
		return fmt.Errorf("outbox: commit: %w", explain(err))
	}
	return fmt.Errorf("outbox: commit: %w: %w", ErrOutcomeUnknown, err)
}

// rolledBack says whether an error of COMMIT proves that the transaction has ended without effect: the driver found it
// aborted, or the server answered with an error of the transaction. A server or pooler that is shutting down, or that lost a
// connection itself, proves nothing, and neither do the network, the end of the context and everything else.
func rolledBack(err error) bool {
	if errors.Is(err, pq.ErrInFailedTransaction) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return true
	}
	state := sqlState(err)
	switch {
	case state == "" || state == completionUnknown:
		return false
	case strings.HasPrefix(state, connectionClass), strings.HasPrefix(state, interventionClass),
		strings.HasPrefix(state, systemClass), strings.HasPrefix(state, internalClass):
		return false
	}
	return true
}
