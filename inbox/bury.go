package inbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/event"
)

// Bury records that the consumer gave the event up: the whole event is kept, in state dead, until someone replays it. In
// the same transaction record is called with the number of this death, 1 for the first, to publish whatever belongs to it;
// nil publishes nothing. The outcome is Duplicate when the event was disposed of before, by whomever: then nothing is written.
//
// ctx governs the whole transaction, so a caller that is shutting down passes one that is not cancelled but bounded. Errors of
// the database itself have ErrInfrastructure in their chain, a lost answer to COMMIT also ErrOutcomeUnknown; those of record
// are its own.
func (s *Store) Bury(ctx context.Context, e Event, d Death, record func(ctx context.Context, tx *sql.Tx, deaths int) error) (Outcome, error) {
	if err := e.Validate(); err != nil {
		return 0, fmt.Errorf("inbox: %w", err)
	}
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return 0, infrastructure("bury: begin", err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing is left to roll back unless an error is on its way

	deaths, err := s.bury(ctx, tx, e, d)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Duplicate, nil
	case err != nil:
		return 0, infrastructure("bury", err)
	}
	if record != nil {
		if err := record(event.ContextWithTx(ctx, tx), tx, deaths); err != nil {
			return 0, fmt.Errorf("inbox: bury: %w", err)
		}
	}
	if err := ctx.Err(); err != nil { // certainly no COMMIT was sent; an error of Commit would not tell
		return 0, infrastructure("bury: commit", err)
	}
	if err := tx.Commit(); err != nil {
		if outcomeUnknown(err) {
			err = errors.Join(ErrOutcomeUnknown, err)
		}
		return 0, infrastructure("bury: commit", err)
	}
	return Applied, nil
}

func (s *Store) bury(ctx context.Context, tx *sql.Tx, e Event, d Death) (deaths int, err error) {
	args := []any{
		milliseconds(settleTimeout), milliseconds(settleTimeout), e.Consumer, e.ID, e.attempts(),
		text(d.Class), text(d.FirstError), text(d.LastError), text(d.Stack),
	}
	statement := buryAgainSQL
	if !e.Replayed {
		statement = burySQL
		headers, err := encodeHeaders(e.Headers)
		if err != nil {
			return 0, err
		}
		hash := sha256.Sum256(e.Payload)
		args = append(append(args, e.coordinates()...), hash[:], nullable(e.Delivery.Key), nullable(e.Payload), string(headers))
	}
	err = tx.QueryRowContext(ctx, s.query(statement), args...).Scan(&deaths)
	return deaths, err
}

// text makes a string storable.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
