package outbox

// Conflict is an event that PublishNew left out.
type Conflict struct {
	// EventID is the event that was not written.
	EventID string

	// StoredID is the event in the outbox that stands in its way: EventID itself when it was written before, another one
	// when that has taken the same version of the aggregate.
	StoredID string
}
