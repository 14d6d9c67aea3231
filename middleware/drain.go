package middleware

import "github.com/ThreeDotsLabs/watermill/message"

// Drain makes sure that a shutdown counts as no failure. Closing a router ends the contexts of the messages in flight, and
// handlers that respect theirs return an error. Drain looks at the delivery's own context, never at the error: if it has
// ended, Drain nacks the message itself, so that nothing above can acknowledge it, and returns nil, so that nothing above
// takes it for a failure, a stock PoisonQueue included. A handler that succeeds in spite of the shutdown is acknowledged.
// A delivery whose context has ended before is not handled at all.
//
// It goes outside everything that gives messages up. Middleware above it that commits something when it sees nil has to
// look at the message's context itself. A deadline set above it counts as the delivery's end too; use Timeout below it.
func Drain(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx := msg.Context()
		if ctx.Err() != nil {
			msg.Nack()
			return nil, nil
		}
		produced, err := h(msg)
		if err != nil && ctx.Err() != nil {
			msg.Nack()
			return nil, nil
		}
		return produced, err
	}
}
