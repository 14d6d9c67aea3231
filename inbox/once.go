package inbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"

	"github.com/millrace-go/millrace/event"
)

// ErrPayloadMismatch says that an event came under the id of another one, whose body was different. It is permanent.
var ErrPayloadMismatch = errors.New("another payload was handled under this event_id")

// Once runs effect in a transaction that also holds the event's inbox row, so that it takes effect once for its consumer,
// whatever is delivered, crashes or is taken over how often. effect's context carries the transaction
// (event.TxFromContext) and ends with ctx or its time limit; it must neither commit nor roll back.
//
// While ctx lives Once waits for a connection and for another transaction that handles the same event; effect's time begins
// after that. Once effect has succeeded it commits even if ctx has ended. An error of effect, a panic and runtime.Goexit roll back. Errors
// of the database itself have ErrInfrastructure in their chain, a lost answer to COMMIT also ErrOutcomeUnknown; a known
// event_id with another body is ErrPayloadMismatch; anything else is effect's own error, with context.DeadlineExceeded
// where its time was up. It is ErrInfrastructure, too, where waiting had left effect less than half of its time before ctx's
// deadline: that is no attempt.
func (s *Store) Once(ctx context.Context, e Event, limits Limits, effect func(ctx context.Context, tx *sql.Tx) error) (Outcome, error) {
	if err := errors.Join(e.Validate(), limits.Validate()); err != nil {
		return 0, fmt.Errorf("inbox: %w", err)
	}
	limits.setDefaults()
	due := limits.handlerTime(ctx)
	if limits.IdleTimeout == 0 {
		limits.IdleTimeout = due + idleMargin
	}

	// The transaction has to outlive ctx to be committed during a shutdown. Until the event is taken, though, the end of ctx
	// ends it, so that nobody who is shutting down waits for a connection or a lock. Its own limit counts from then on.
	txCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()
	tx, err := s.db.BeginTx(txCtx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return 0, infrastructure("begin", err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing is left to roll back unless effect panicked or an error is on its way

	taken, err := s.take(txCtx, tx, e, limits)
	if err != nil {
		return 0, infrastructure("take event", err)
	}
	if !taken {
		return s.disposed(txCtx, tx, e)
	}
	if !detach() {
		return 0, infrastructure("take event", context.Cause(ctx))
	}

	allowed := limits.handlerTime(ctx)
	limit := time.AfterFunc(max(due, limits.IdleTimeout)+settleTimeout, cancel)
	defer limit.Stop()
	effectCtx, done := context.WithTimeout(event.ContextWithTx(ctx, tx), allowed)
	defer done()
	if err := effect(effectCtx, tx); err != nil {
		return 0, rolledBack(effectCtx, tx, err, allowed < due/2)
	}
	if txCtx.Err() != nil { // certainly no COMMIT was sent; an error of Commit would not tell
		return 0, rolledBack(effectCtx, tx, sql.ErrTxDone, allowed < due/2)
	}
	if err := tx.Commit(); err != nil {
		return 0, notCommitted(err)
	}
	return Applied, nil
}

// take makes the event this transaction's: by inserting its row or, when it is replayed, by moving it on from parked.
func (s *Store) take(ctx context.Context, tx *sql.Tx, e Event, limits Limits) (bool, error) {
	args := []any{milliseconds(limits.IdleTimeout), milliseconds(limits.LockTimeout), e.Consumer, e.ID, e.attempts()}
	statement := takeSQL
	if !e.Replayed {
		statement = markSQL
		hash := sha256.Sum256(e.Payload)
		args = append(append(args, e.coordinates()...), hash[:])
	}
	result, err := tx.ExecContext(ctx, s.query(statement), args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// disposed looks at the row that was there already.
func (s *Store) disposed(ctx context.Context, tx *sql.Tx, e Event) (Outcome, error) {
	if e.Replayed {
		return Duplicate, nil
	}
	var hash []byte
	err := tx.QueryRowContext(ctx, s.query(payloadHashSQL), e.Consumer, e.ID).Scan(&hash)
	if err != nil {
		return 0, infrastructure("read payload hash", err) // sql.ErrNoRows too: cleaned up just now, the next delivery inserts it
	}
	if sum := sha256.Sum256(e.Payload); !bytes.Equal(hash, sum[:]) {
		return 0, event.Permanent(fmt.Errorf("inbox: %w", ErrPayloadMismatch))
	}
	return Duplicate, nil
}

// rolledBack is the failure of an effect. If the roll-back shows that the connection was lost under it, while it still had
// time, then whatever it reported is the outage's doing. (pgx also drops the connection of a statement that ran out of time.)
// An effect that had waited too long to begin is not to blame for running out of time.
func rolledBack(ctx context.Context, tx *sql.Tx, err error, waited bool) error {
	lost := tx.Rollback()
	switch {
	case event.IsPermanent(err):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && waited:
		return infrastructure("out of time after waiting for a connection or a lock", err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("inbox: out of time: %w: %w", context.DeadlineExceeded, err)
	case lost == nil, errors.Is(lost, sql.ErrTxDone):
		return err
	}
	return infrastructure("connection lost", err)
}

func notCommitted(err error) error {
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("inbox: the transaction was ended before its time: %w", err)
	case errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pq.ErrInFailedTransaction):
		return fmt.Errorf("inbox: the handler ignored an error of a statement: %w", err)
	case outcomeUnknown(err):
		return infrastructure("commit", errors.Join(ErrOutcomeUnknown, err))
	case IsInfrastructure(err):
		return infrastructure("commit", err)
	}
	return fmt.Errorf("inbox: commit: %w", err)
}
