package outbox

import "time"

// HeldTopic is a topic the events of which do not go along with the others of their shards.
type HeldTopic struct {
	Topic string `json:"topic"`

	// Reason is paused (by an operator), unavailable (missing, forbidden or changed) or stalled (others went on, it did not).
	Reason string `json:"reason"`

	// Held is false while it is let go and catching up.
	Held bool `json:"held"`

	Since     time.Time `json:"since"`
	Failures  int       `json:"failures"`
	LastError string    `json:"last_error"`
	Shards    int       `json:"shards"` // in how many
}

// scanHeldTopic reads a row of operator_held.sql.
func scanHeldTopic(scan scanner) (h HeldTopic, err error) {
	err = scan(&h.Topic, &h.Reason, &h.Held, &h.Since, &h.Failures, &h.LastError, &h.Shards)
	h.Since = h.Since.UTC()
	return h, err
}
