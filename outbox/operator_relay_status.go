package outbox

import (
	"time"
)

// RelayStatus is a relay in the register.
type RelayStatus struct {
	RelayID string
	Name    string
	Live    bool // it has a lease

	// LeaseRemaining is negative where the lease has ended.
	LeaseRemaining time.Duration

	Shards    int // it owns, also when it is not live and nobody has taken them yet
	StartedAt time.Time
}

// scanRelayStatus reads a row of operator_relays.sql.
func scanRelayStatus(scan scanner) (r RelayStatus, err error) {
	var milliseconds int64
	err = scan(&r.RelayID, &r.Name, &milliseconds, &r.Live, &r.Shards, &r.StartedAt)
	r.LeaseRemaining, r.StartedAt = time.Duration(milliseconds)*time.Millisecond, r.StartedAt.UTC()
	return r, err
}
