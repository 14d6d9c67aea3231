package outbox

// Policy says what becomes of the events behind one that the broker refuses for good, under the same key and topic.
type Policy string

const (
	// Block makes them wait, in order, until the refused event is sent, skipped or discarded.
	Block Policy = "block"
	// Skip lets them pass. The refused event, sent later, comes out of order; that it was passed is recorded in its parked row
	// and in the audit.
	Skip Policy = "skip"
)

func (c SubscriberConfig) policy(topic string) Policy {
	if p, ok := c.Policies[topic]; ok {
		return p
	}
	return Block
}
