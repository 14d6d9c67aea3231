package outbox

import (
	"context"
	"errors"
	"fmt"
)

// Retry has parked events tried again now, with all their attempts before them. It works on what is retrying, quarantined or
// scheduled. The place in the order of its key stays: followers go on waiting. A scheduled event is sent at once.
func (o *Operator) Retry(ctx context.Context, op Operation) ([]Change, error) {
	return o.operate(ctx, "retry", op, (*operatorTarget).retry)
}

func (t *operatorTarget) retry() error {
	switch t.before.State {
	case stateBlocked:
		return fmt.Errorf("%w: it is blocked: %s", ErrWrongState, t.before.waitsFor())
	case stateDiscarded:
		return fmt.Errorf("%w: it is discarded, which is final", ErrWrongState)
	}
	t.after.State, t.after.Attempts, t.dueNow = stateRetrying, 0, true
	return nil
}

// Skip puts events aside that others of their key wait for: these go on in order, and the event stays, quarantined. Retry
// sends it out of order then. It works on what is retrying or quarantined and blocks.
func (o *Operator) Skip(ctx context.Context, op Operation) ([]Change, error) {
	return o.operate(ctx, "skip", op, func(t *operatorTarget) error {
		switch {
		case t.before.State == stateBlocked:
			return fmt.Errorf("%w: it is blocked, so others do not wait for it: %s", ErrWrongState, t.before.waitsFor())
		case !t.before.Blocks:
			return fmt.Errorf("%w: it is %s and nothing waits for it: there is nothing to skip", ErrWrongState, t.before.State)
		}
		t.after.State, t.after.Blocks, t.after.DueAt = stateQuarantined, false, nil
		return nil
	})
}

// Discard gives parked events up: they are never sent, and nothing waits for them any more. This is final. It works on every
// state but discarded itself.
func (o *Operator) Discard(ctx context.Context, op Operation) ([]Change, error) {
	return o.operate(ctx, "discard", op, func(t *operatorTarget) error {
		if t.before.State == stateDiscarded {
			return fmt.Errorf("%w: it is discarded already", ErrWrongState)
		}
		t.after.State, t.after.Blocks, t.after.DueAt = stateDiscarded, false, nil
		return nil
	})
}

// Assign says who repairs parked events, in whatever state. An empty owner is nobody.
func (o *Operator) Assign(ctx context.Context, owner string, op Operation) ([]Change, error) {
	if !storable(owner) || len(owner) > maxColumnLength {
		return nil, fmt.Errorf("outbox: assign: %w", errors.New("the owner is too long or not valid UTF-8 without NUL"))
	}
	return o.operate(ctx, "assign", op, func(t *operatorTarget) error {
		t.after.Owner = owner
		return nil
	})
}
