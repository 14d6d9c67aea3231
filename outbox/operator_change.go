package outbox

// Change is what an operation did, or in a dry run would do, to one event.
type Change struct {
	EventID string

	// State is the event's after the operation.
	State string

	// Differences are what changed. Doing again what was done already makes none.
	Differences []Difference

	// Err says why nothing was done to this event: ErrNotFound, ErrNotParked or ErrWrongState.
	Err error
}

// destination is the topic an event is sent to.
func (p *ParkedEvent) destination() string {
	if p.TopicOverride != "" {
		return p.TopicOverride
	}
	return p.Topic
}

// distinctStorable are the ids PostgreSQL can be asked about, each once.
func distinctStorable(ids []string) []string {
	list := make([]string, 0, len(ids))
	seen := map[string]bool{}
	for _, id := range ids {
		if storable(id) && !seen[id] {
			seen[id] = true
			list = append(list, id)
		}
	}
	return list
}

// inOrder puts changes in the order of ids, each once, and says of which nothing is known.
func inOrder(ids []string, found []Change) []Change {
	byID := make(map[string]Change, len(found))
	for _, c := range found {
		byID[c.EventID] = c
	}
	list := make([]Change, 0, len(ids))
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		c, ok := byID[id]
		if !ok {
			c = Change{EventID: id, Err: ErrNotFound}
		}
		list = append(list, c)
	}
	return list
}
