package outbox

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lib/pq"
)

//go:embed operator_parked.sql
var operatorParkedSQL string

// MaxParked is the most parked events Operator.List returns, and an operation changes, at once.
const MaxParked = 10_000

// ParkedFilter picks parked events. An empty field matches everything.
type ParkedFilter struct {
	State      string // scheduled, retrying, blocked, quarantined or discarded
	Topic      string // the event's own
	Owner      string
	ErrorClass string

	// Both or none.
	AggregateType string
	AggregateID   string

	// OlderThan leaves out what was parked later than so long ago. Milliseconds count.
	OlderThan time.Duration

	// After continues a listing behind its last element: ParkedEvent.Entry.
	After int64

	// Limit is the page size of a list, default 100, and how many events an operation looks at, default all, which may be
	// MaxParked. At most MaxParked.
	Limit int
}

// Validate names every bad field.
func (f ParkedFilter) Validate() error {
	var errs []error
	if !slices.Contains([]string{"", stateScheduled, stateRetrying, stateBlocked, stateQuarantined, stateDiscarded}, f.State) {
		errs = append(errs, fmt.Errorf("State %q is none of scheduled, retrying, blocked, quarantined and discarded", f.State))
	}
	if (f.AggregateType == "") != (f.AggregateID == "") {
		errs = append(errs, errors.New("AggregateType and AggregateID go together"))
	}
	if f.OlderThan < 0 {
		errs = append(errs, fmt.Errorf("OlderThan %s is negative", f.OlderThan))
	}
	if f.Limit < 0 || f.Limit > MaxParked {
		errs = append(errs, fmt.Errorf("Limit %d is not between 1 and %d", f.Limit, MaxParked))
	}
	for _, s := range []string{f.Topic, f.Owner, f.ErrorClass, f.AggregateType, f.AggregateID} {
		if !storable(s) {
			errs = append(errs, errors.New("a field is not valid UTF-8 without NUL"))
			break
		}
	}
	return errors.Join(errs...)
}

// List returns a page of parked events in the order in which they were parked.
func (o *Operator) List(ctx context.Context, filter ParkedFilter) ([]ParkedEvent, error) {
	if filter.Limit == 0 {
		filter.Limit = 100
	}
	err := filter.Validate()
	var page []ParkedEvent
	if err == nil {
		page, err = o.parked(ctx, o.db, nil, filter)
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: list: %w", err)
	}
	return page, nil
}

// parked reads parked events that are among ids, unless that is nil, and match the filter.
func (o *Operator) parked(ctx context.Context, db operatorReads, ids []string, f ParkedFilter) ([]ParkedEvent, error) {
	return operatorRows(ctx, db, o.sql(operatorParkedSQL), scanParkedEvent, pq.Array(ids), f.State, f.Topic, f.AggregateType,
		f.AggregateID, f.Owner, f.ErrorClass, f.OlderThan.Milliseconds(), f.After, f.Limit)
}
