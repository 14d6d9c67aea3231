package inbox

import "time"

// maxPause is the longest pause of an event that is nacked again and again.
const maxPause = time.Minute

// pause is how long an event is left alone.
type pause struct {
	length time.Duration
	until  time.Time
}

// pauses are those of nacked events by id, in the memory of this subscription alone: other replicas find out for themselves.
type pauses map[string]pause

// extend pauses an event, for twice as long as the last time.
func (p pauses) extend(id string, first time.Duration, now time.Time) {
	length := min(max(2*p[id].length, first), maxPause)
	p[id] = pause{length: length, until: now.Add(length)}
}

func (p pauses) end(id string) { delete(p, id) }

// current returns the events to leave out. An event that nobody has seen long after its pause was handled elsewhere.
func (p pauses) current(now time.Time) []string {
	ids := []string{} // not nil: null would match nothing
	for id, paused := range p {
		switch {
		case now.Before(paused.until):
			ids = append(ids, id)
		case now.Sub(paused.until) > 2*maxPause:
			delete(p, id)
		}
	}
	return ids
}
