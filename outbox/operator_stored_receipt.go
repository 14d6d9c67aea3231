package outbox

import "time"

// StoredReceipt says where and when an event was sent.
type StoredReceipt struct {
	Topic        string    `json:"topic"`
	Partition    *int32    `json:"partition"` // nil = the publisher did not tell
	Offset       *int64    `json:"offset"`
	Attempts     int       `json:"attempts"`
	ClaimVersion int64     `json:"claim_version"`
	SentAt       time.Time `json:"sent_at"`
}
