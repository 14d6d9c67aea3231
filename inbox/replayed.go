package inbox

import "context"

// Replayed marks a message that Subscriber emitted. It names the inbox row, which is not always the message's own event_id.
type Replayed struct {
	Consumer string
	EventID  string
}

type replayedKey struct{}

// ReplayedFromContext returns the mark of a message that a Subscriber emitted. Nobody else can set one.
func ReplayedFromContext(ctx context.Context) (Replayed, bool) {
	r, ok := ctx.Value(replayedKey{}).(Replayed)
	return r, ok
}
