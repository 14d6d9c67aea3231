package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/lib/pq"
)

var (
	//go:embed operator_lock.sql
	operatorLockSQL string
	//go:embed operator_change.sql
	operatorChangeSQL string
)

// Operation says which parked events an operator wants to change, why, and whether really.
type Operation struct {
	// EventIDs are the events; what can not be done to one of them is an error in its Change. If nil, Matching picks them,
	// and those to which it can not be done are left as they are.
	EventIDs []string
	Matching ParkedFilter

	// Expect is how many events must be about to change, else none does: ErrUnexpectedCount. nil = any number.
	Expect *int

	// Reason goes to the audit. Edit requires one.
	Reason string

	// DryRun only says what would happen. Nothing is locked or written.
	DryRun bool
}

// validate names every bad field, and the actor where he is missing.
func (op Operation) validate(actor string) error {
	errs := []error{op.Matching.Validate()}
	if actor == "" {
		errs = append(errs, errors.New("OperatorConfig.Actor is missing"))
	}
	if !storable(op.Reason) {
		errs = append(errs, errors.New("Reason is not valid UTF-8 without NUL"))
	}
	if len(op.EventIDs) > MaxParked {
		errs = append(errs, fmt.Errorf("EventIDs are more than %d", MaxParked))
	}
	return errors.Join(errs...)
}

// operatorTarget is a parked event as it is and as it is to be.
type operatorTarget struct {
	event         storedEvent
	before, after ParkedEvent
	dueNow        bool
}

// operate does to each event of an operation what decide says, all in one transaction.
func (o *Operator) operate(ctx context.Context, action string, op Operation, decide func(*operatorTarget) error) ([]Change, error) {
	changes, err := o.tryOperate(ctx, action, op, decide)
	if err != nil {
		return nil, fmt.Errorf("outbox: %s: %w", action, err)
	}
	return changes, nil
}

func (o *Operator) tryOperate(ctx context.Context, action string, op Operation, decide func(*operatorTarget) error) (changes []Change, err error) {
	if err := op.validate(o.config.Actor); err != nil {
		return nil, err
	}
	ids := distinctStorable(op.EventIDs)
	filter := ParkedFilter{Limit: MaxParked}
	if op.EventIDs == nil {
		filter = op.Matching
		if filter.Limit == 0 {
			filter.Limit = MaxParked + 1
		}
		if ids, err = o.matching(ctx, filter); err != nil {
			return nil, err
		}
	}
	decideAll := func(db operatorReads) ([]operatorTarget, error) {
		targets, found, err := o.decide(ctx, db, ids, filter, decide)
		if err != nil {
			return nil, err
		}
		changes = found
		if op.EventIDs != nil {
			changes = inOrder(op.EventIDs, found)
		}
		if op.Expect != nil && *op.Expect != len(targets) {
			return nil, fmt.Errorf("%w: %d would change, not %d", ErrUnexpectedCount, len(targets), *op.Expect)
		}
		return targets, nil
	}
	if op.DryRun {
		_, err := decideAll(o.db)
		return changes, err
	}
	err = InTx(ctx, o.db, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, o.sql(operatorLockSQL), pq.Array(ids)); err != nil {
			return explain(err)
		}
		targets, err := decideAll(tx) // what was waited for may have changed them
		if err != nil || len(targets) == 0 {
			return err
		}
		return o.change(ctx, tx, action, op.Reason, targets)
	})
	return changes, err
}

// matching are the event_ids an operation by filter begins with.
func (o *Operator) matching(ctx context.Context, filter ParkedFilter) ([]string, error) {
	parked, err := o.parked(ctx, o.db, nil, filter)
	if err == nil && len(parked) > MaxParked {
		err = fmt.Errorf("more than %d events match: narrow it down, or set a limit", MaxParked)
	}
	ids := make([]string, len(parked))
	for n := range parked {
		ids[n] = parked[n].EventID
	}
	return ids, err
}

// decide reads the events and has it decided what becomes of each.
func (o *Operator) decide(
	ctx context.Context, db operatorReads, ids []string, filter ParkedFilter, decide func(*operatorTarget) error,
) (targets []operatorTarget, changes []Change, err error) {
	parked, err := o.parked(ctx, db, ids, filter)
	if err != nil {
		return nil, nil, err
	}
	events, err := o.events(ctx, db, ids, false)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range parked {
		t := operatorTarget{event: events[p.EventID], before: p, after: p}
		t.after.MetadataOverride = maps.Clone(p.MetadataOverride)
		delete(events, p.EventID)
		change := Change{EventID: p.EventID, State: p.State}
		if change.Err = decide(&t); change.Err == nil {
			change.State = t.after.State
			if change.Differences, err = t.differences(); err != nil {
				return nil, nil, err
			}
			targets = append(targets, t)
		}
		changes = append(changes, change)
	}
	for id, e := range events { // those that are not parked
		changes = append(changes, Change{EventID: id, State: e.state(), Err: fmt.Errorf("%w: it is %s", ErrNotParked, e.state())})
	}
	return targets, changes, nil
}

// operatorChange is a row for operator_change.sql.
type operatorChange struct {
	Shard            int16              `json:"shard"`
	Position         int64              `json:"position"`
	State            string             `json:"state"`
	Blocks           bool               `json:"blocks"`
	Attempts         int                `json:"attempts"`
	DueNow           bool               `json:"due_now"`
	TopicOverride    string             `json:"topic_override,omitempty"`
	MetadataOverride map[string]*string `json:"metadata_override,omitempty"`
	Owner            string             `json:"owner"`
}

func (o *Operator) change(ctx context.Context, tx *sql.Tx, action, reason string, targets []operatorTarget) error {
	rows, lines := make([]operatorChange, len(targets)), make([]audited, len(targets))
	for n, t := range targets {
		differences, err := t.differences()
		if err != nil {
			return err
		}
		rows[n] = operatorChange{
			t.after.Shard, t.after.Position, t.after.State, t.after.Blocks, t.after.Attempts, t.dueNow,
			t.after.TopicOverride, t.after.MetadataOverride, t.after.Owner,
		}
		lines[n] = audited{t.after.EventID, map[string]any{
			"event_id": t.after.EventID, "topic": t.after.Topic, "state": t.before.State, "differences": differences,
		}}
	}
	list, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, o.sql(operatorChangeSQL), string(list))
	if err != nil {
		return explain(err)
	}
	if changed, err := result.RowsAffected(); err != nil || changed != int64(len(targets)) {
		return errors.Join(err, fmt.Errorf("%d of %d locked events changed", changed, len(targets)))
	}
	return o.writeDown(ctx, tx, action, reason, lines)
}
