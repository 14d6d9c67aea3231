package inbox

import "time"

// Cursor is a place in a listing.
type Cursor struct {
	UpdatedAt time.Time
	Consumer  string
	EventID   string
}

// Cursor is the place behind d.
func (d DeadLetter) Cursor() Cursor {
	return Cursor{UpdatedAt: d.UpdatedAt, Consumer: d.Consumer, EventID: d.EventID}
}
