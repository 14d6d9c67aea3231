package outbox

import (
	"errors"
	"fmt"
)

// Constraints that make an event unique.
const (
	eventIDConstraint          = "outbox_pkey"
	aggregateVersionConstraint = "outbox_aggregate_version_key"
)

// ErrConflict is in the chain of every ConflictError.
var ErrConflict = errors.New("the event is in the outbox already")

// ConflictError says that an event could not be written because one with the same event_id, or one of the same type, topic
// and version of the aggregate, is there. PostgreSQL has aborted the transaction: nothing but a rollback, also one to a
// savepoint, is possible in it. PublishNew is for those who expect conflicts.
type ConflictError struct {
	// Constraint is the violated one: outbox_pkey (event_id) or outbox_aggregate_version_key.
	Constraint string

	// EventIDs are the events of the failed statement: of Publish with one message, the one that conflicts.
	EventIDs []string

	// Err is the driver's error.
	Err error
}

func (e *ConflictError) Error() string {
	if len(e.EventIDs) == 1 {
		return fmt.Sprintf("%v: event_id %q: %v", ErrConflict, e.EventIDs[0], e.Err)
	}
	return fmt.Sprintf("%v: one of %d events: %v", ErrConflict, len(e.EventIDs), e.Err)
}

// Unwrap returns ErrConflict and the driver's error.
func (e *ConflictError) Unwrap() []error { return []error{ErrConflict, e.Err} }

// conflictError makes the error of a failed INSERT of the given events.
func conflictError(err error, rows []stored) error {
	if sqlState(err) != uniqueViolation {
		return explain(err)
	}
	switch constraint := constraintOf(err); constraint {
	case eventIDConstraint, aggregateVersionConstraint:
		ids := make([]string, len(rows))
		for i := range rows {
			ids[i] = rows[i].eventID
		}
		return &ConflictError{Constraint: constraint, EventIDs: ids, Err: err}
	}
	return err // a position given twice is nobody's retry
}
