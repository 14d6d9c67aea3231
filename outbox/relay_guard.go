package outbox

import "fmt"

const (
	guardAfter  = 3    // takeovers in a row without progress
	guardEvents = 1000 // to be sent one by one, at least
	crashTries  = 2    // relays that ended while sending an event alone, until it is quarantined
)

// guarded says whether events have to be sent one at a time.
func (e *engine) guarded() bool {
	guarded := false
	for _, s := range e.shards {
		if s.guard != nil && s.rows == 0 && s.main.resumeTo == 0 && len(s.main.marks) == 0 {
			s.guard = nil // all there was has been sent
		}
		guarded = guarded || s.guard != nil
	}
	return guarded
}

// passedGuard counts an event that was sent and did no harm.
func (e *engine) passedGuard(s *shard) {
	if s.guard == nil {
		return
	}
	if s.guard.left--; s.guard.left <= 0 {
		s.guard = nil
	}
}

// crashed is why an event is quarantined that nobody refused.
func crashed(tries int) failure {
	return failure{stage: "relay", class: "crash", text: fmt.Sprintf("%d relays ended without progress while sending this event alone", tries)}
}
