package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// retry calls try until it succeeds, says that trying again is useless, or ctx is done. It then returns the last error,
// joined with that of ctx.
func retry(ctx context.Context, try func() (again bool, err error)) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = 20 * time.Millisecond
	pause.Multiplier = 2
	pause.MaxInterval = time.Second
	for {
		again, err := try()
		if err == nil || !again {
			return err
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}
