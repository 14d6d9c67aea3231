package outbox

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
)

//go:embed sequence.sql
var sequenceSQL string

// ErrSequenceBehind means that the outbox's position sequence would hand out positions that are taken.
var ErrSequenceBehind = errors.New("outbox: the position sequence is behind the table")

// checkSequence refuses to relay from an outbox whose sequence was reset below its rows: new events would get positions
// that old receipts may already speak of.
func (s *Subscriber) checkSequence(ctx context.Context) error {
	var last, highest int64
	var name string
	if err := s.db.QueryRowContext(ctx, loadSQL(sequenceSQL, s.config.Schema)).Scan(&last, &highest, &name); err != nil {
		return fmt.Errorf("outbox: check position sequence: %w", explain(err))
	}
	if last < highest {
		return fmt.Errorf("%w: last value %d, highest position %d; with writers stopped, run: select setval('%s', %d)",
			ErrSequenceBehind, last, highest, name, highest)
	}
	return nil
}
