package outbox

import (
	"fmt"
	"time"
)

const (
	guardAfter  = 3    // takeovers in a row without progress
	guardEvents = 1000 // to be sent one by one, at least
	crashTries  = 2    // relays that ended while sending an event alone, until it is quarantined
)

// guarded says whether events have to be sent one at a time.
func (e *engine) guarded(now time.Time) bool {
	guarded := false
	loaded := e.loading == room{} && len(e.releases) == 0 && !e.dueIn(now) // all parked events that may go
	for _, s := range e.shards {
		if s.guard != nil && loaded && s.rows == 0 && s.hasBeenRead() {
			s.guard = nil // all there was has been sent
		}
		guarded = guarded || s.guard != nil
	}
	return guarded
}

// hasBeenRead says whether all that an earlier owner can have read has been read again and settled.
func (s *shard) hasBeenRead() bool {
	for _, l := range s.all() {
		if l.resumeTo > 0 || len(l.marks) > 0 {
			return false
		}
	}
	return true
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
