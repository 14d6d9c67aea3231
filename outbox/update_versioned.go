package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrVersionConflict means that the row is not, or no longer, at the version the update expects: somebody else was first.
// Read it again and decide again.
var ErrVersionConflict = errors.New("version conflict")

// UpdateVersioned runs the caller's version-conditional UPDATE, which must change exactly one row:
//
//	err := outbox.UpdateVersioned(ctx, tx,
//		"update orders set state = 'paid', version = version + 1 where id = $1 and version = $2", id, version)
//
// No row is ErrVersionConflict and leaves the transaction usable; several rows are an error, too. At Read Committed, as in
// InTx, it waits for a concurrent change of the row and then sees it; at stricter levels PostgreSQL fails with SQLSTATE 40001
// instead. The row stays locked until the end of the transaction, so that events of one aggregate get their positions in the
// order of their versions.
func UpdateVersioned(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("outbox: versioned update: %w", err)
	}
	n, err := result.RowsAffected()
	switch {
	case err != nil:
		return fmt.Errorf("outbox: versioned update: %w", err)
	case n == 0:
		return fmt.Errorf("outbox: versioned update: %w", ErrVersionConflict)
	case n > 1:
		return fmt.Errorf("outbox: versioned update: %d rows changed instead of one: roll back", n)
	}
	return nil
}
