package inbox

import (
	"context"
	"errors"
	"time"
)

// Limits bound one transaction, so that a frozen or lost process cannot hold an event for ever.
type Limits struct {
	// HandlerTimeout bounds the effect, default 30 s. An earlier deadline of its context comes first.
	HandlerTimeout time.Duration
	// IdleTimeout is after how long without a statement the server ends the transaction, default the time the effect has
	// plus 15 s. Shorter than the longest pause between two statements of a handler, it cuts off healthy handlers.
	IdleTimeout time.Duration
	// LockTimeout is how long a statement waits for a lock, the handler's included, default 10 s. A copy of an event
	// that is being handled elsewhere waits this long for the outcome before it is tried again.
	LockTimeout time.Duration
}

const idleMargin = 15 * time.Second

func (l *Limits) setDefaults() {
	if l.HandlerTimeout == 0 {
		l.HandlerTimeout = 30 * time.Second
	}
	if l.LockTimeout == 0 {
		l.LockTimeout = 10 * time.Second
	}
}

// Validate names every bad field.
func (l Limits) Validate() error {
	var errs []error
	if l.HandlerTimeout < 0 {
		errs = append(errs, errors.New("HandlerTimeout is negative"))
	}
	if l.IdleTimeout < 0 {
		errs = append(errs, errors.New("IdleTimeout is negative"))
	}
	if l.LockTimeout < 0 {
		errs = append(errs, errors.New("LockTimeout is negative"))
	}
	return errors.Join(errs...)
}

// handlerTime is how long the effect may take.
func (l Limits) handlerTime(ctx context.Context) time.Duration {
	allowed := l.HandlerTimeout
	if deadline, ok := ctx.Deadline(); ok {
		allowed = min(allowed, max(time.Until(deadline), 0))
	}
	return allowed
}
