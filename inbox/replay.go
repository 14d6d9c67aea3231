package inbox

import (
	"context"
	"errors"
	"fmt"
)

// ErrNotDead says that the event is no dead letter, or no longer: it has been replayed already.
var ErrNotDead = errors.New("not a dead letter")

// Replay has a dead letter handled again: by its own consumer alone, with the same event_id, bytes and headers, as soon as a
// Subscriber of that consumer looks. The change and its audit row are one statement, so it happens wholly or not at all.
//
// Errors: ErrNotFound when the consumer does not know the event, ErrNotDead when it is not dead, a replay before this one
// included.
func (s *Store) Replay(ctx context.Context, consumer, eventID string, by By) error {
	if err := by.Validate(); err != nil {
		return fmt.Errorf("inbox: replay: %w", err)
	}
	if !isText(consumer) || !isText(eventID) {
		return fmt.Errorf("inbox: replay: %w", ErrNotFound)
	}
	result, err := s.db.ExecContext(ctx, s.query(replaySQL), consumer, eventID, by.Actor, by.Reason)
	if err != nil {
		return fmt.Errorf("inbox: replay: %w", err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("inbox: replay: %w", err)
	}
	if n == 1 {
		return nil
	}
	d, err := s.Show(ctx, consumer, eventID)
	if err != nil {
		return err
	}
	return fmt.Errorf("inbox: replay: %w: it is %s", ErrNotDead, d.State)
}
