package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cenkalti/backoff/v5"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
)

// Values that switch a default of Retry off.
const (
	NoRetries = -1
	NoJitter  = -1
)

// Retry tries a failed message again in place, with a growing, jittered pause. The zero value has the defaults.
//
// A permanent error ends it at once. An infrastructure error has a budget of its own, of the same size, and comes back as it
// is when that is spent: the message is to be delivered again, not given up. Any other failure comes back as *RetryError.
// When the delivery's context ends, so does the pause.
//
// While it pauses, what is behind the message in its lane waits; keep the sum of the pauses to seconds.
type Retry struct {
	// MaxRetries after the first attempt, default 3; NoRetries for none.
	MaxRetries int
	// InitialInterval is the first pause, default 100 ms.
	InitialInterval time.Duration
	// MaxInterval is the longest pause before jitter, default 10 s.
	MaxInterval time.Duration
	// Multiplier makes each pause longer than the one before, default 2.
	Multiplier float64
	// Jitter spreads a pause between (1-Jitter) and (1+Jitter) times its length, default 0.5; NoJitter for none.
	Jitter float64
	// OnRetryHook is called before each pause, from the message's goroutine, with the number of the retry that follows it.
	OnRetryHook func(retryNum int, delay time.Duration)
}

func (r *Retry) setDefaults() {
	if r.MaxRetries == 0 {
		r.MaxRetries = 3
	}
	if r.InitialInterval == 0 {
		r.InitialInterval = 100 * time.Millisecond
	}
	if r.MaxInterval == 0 {
		r.MaxInterval = 10 * time.Second
	}
	if r.Multiplier == 0 {
		r.Multiplier = 2
	}
	if r.Jitter == 0 {
		r.Jitter = 0.5
	}
}

// Validate names every bad field.
func (r Retry) Validate() error {
	r.setDefaults()
	var errs []error
	if r.MaxRetries < NoRetries {
		errs = append(errs, errors.New("MaxRetries is negative"))
	}
	if r.InitialInterval < 0 {
		errs = append(errs, errors.New("InitialInterval is negative"))
	}
	if r.MaxInterval < r.InitialInterval {
		errs = append(errs, errors.New("MaxInterval is shorter than InitialInterval"))
	}
	if r.Multiplier < 1 {
		errs = append(errs, errors.New("Multiplier is less than 1"))
	}
	if r.Jitter != NoJitter && (r.Jitter < 0 || r.Jitter > 1) {
		errs = append(errs, errors.New("Jitter is not between 0 and 1"))
	}
	return errors.Join(errs...)
}

// Middleware is the router middleware. An invalid configuration fails every message, as an infrastructure error.
func (r Retry) Middleware(h message.HandlerFunc) message.HandlerFunc {
	if err := r.Validate(); err != nil {
		return misconfigured("Retry", err)
	}
	r.setDefaults()
	return func(msg *message.Message) ([]*message.Message, error) { return r.handle(h, msg) }
}

func (r Retry) handle(h message.HandlerFunc, msg *message.Message) ([]*message.Message, error) {
	ctx := msg.Context()
	defer msg.SetContext(ctx)
	pause := backoff.ExponentialBackOff{
		InitialInterval: r.InitialInterval, MaxInterval: r.MaxInterval, Multiplier: r.Multiplier, RandomizationFactor: max(r.Jitter, 0),
	}
	limit := max(r.MaxRetries, 0)
	var first error
	failures, outages := 0, 0
	for {
		// A context of its own for each attempt: middleware below may leave an ended one behind.
		msg.SetContext(context.WithValue(ctx, attemptKey{}, failures+1))
		produced, err := h(msg)
		if err == nil || ctx.Err() != nil {
			return produced, err
		}
		if inbox.IsInfrastructure(err) {
			outages++
			if outages > limit {
				return nil, err
			}
		} else {
			failures++
			if first == nil {
				first = err
			}
			if failures > limit || event.IsPermanent(err) {
				return nil, &RetryError{Attempts: failures, First: first, Last: err}
			}
		}

		delay := pause.NextBackOff()
		if r.OnRetryHook != nil {
			r.OnRetryHook(failures+outages, delay)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(delay):
		}
	}
}

type attemptKey struct{}

// attempt is the number of the attempt, 1 where Retry is not in use.
func attempt(ctx context.Context) int {
	n, _ := ctx.Value(attemptKey{}).(int)
	return max(n, 1)
}

// misconfigured fails every message in a way that gives none of them up.
func misconfigured(name string, err error) message.HandlerFunc {
	err = fmt.Errorf("middleware: %s: %w: %w", name, inbox.ErrInfrastructure, err)
	return func(*message.Message) ([]*message.Message, error) { return nil, err }
}
