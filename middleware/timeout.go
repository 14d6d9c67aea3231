package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/inbox"
)

// ErrTimeout says that an attempt ran out of its time.
var ErrTimeout = fmt.Errorf("attempt ran out of time: %w", context.DeadlineExceeded)

// Timeout bounds each attempt's context; it cannot stop a handler that ignores it. An attempt that fails after its time is
// up is a transient failure, ErrTimeout, whatever error it returned, unless the database was away. The message's own
// context is put back afterwards, so that the next attempt has its full time. Dedup's HandlerTimeout is a bound too.
func Timeout(d time.Duration) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			delivery := msg.Context()
			defer msg.SetContext(delivery)
			ctx, cancel := context.WithTimeout(delivery, d)
			defer cancel()
			msg.SetContext(ctx)

			produced, err := h(msg)
			late := err != nil && delivery.Err() == nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
			if late && !errors.Is(err, inbox.ErrInfrastructure) {
				// As text only: what a cut-off handler says about permanence or lost connections is a consequence.
				return nil, fmt.Errorf("middleware: %w, after %s: %s", ErrTimeout, d, describe(err))
			}
			return produced, err
		}
	}
}
