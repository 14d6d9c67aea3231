package middleware

import (
	"runtime/debug"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Recoverer turns a panic into a *PanicError, and runtime.Goexit too: on the router's goroutine that would leave the message
// neither acknowledged nor nacked for ever. So the handler gets a goroutine of its own, which Recoverer waits for.
func Recoverer(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) (produced []*message.Message, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			returned := false
			defer func() {
				if !returned {
					produced, err = nil, &PanicError{Value: recover(), Stack: debug.Stack()}
				}
			}()
			produced, err = h(msg)
			returned = true
		}()
		<-done
		return produced, err
	}
}
