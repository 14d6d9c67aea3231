package inbox

import (
	"database/sql"
	"time"
)

// DeadLetter is an inbox row as people look at it.
type DeadLetter struct {
	Consumer string
	EventID  string // the row's own; the event_id the record came with, if any, is among Headers
	State    string // "dead", from Show also "parked", "blocked" and "done"

	Topic      string
	Partition  *int32
	Offset     *int64
	RecordTime *time.Time

	// The event. List leaves Payload and Headers out. All of it is gone once the event is done.
	Key          []byte // nil = no key
	Payload      []byte // nil = a tombstone
	PayloadBytes int64
	Headers      map[string]string

	Attempts int
	Deaths   int
	Replays  int
	DueAt    *time.Time // while parked

	ErrorClass string // one of the Class constants
	FirstError string
	LastError  string
	Stack      string // List leaves it out

	CreatedAt time.Time
	UpdatedAt time.Time
}

// scan reads the columns list.sql and show.sql share; more are the destinations of what follows them.
func (d *DeadLetter) scan(row interface{ Scan(dest ...any) error }, more ...any) error {
	var class, first, last sql.NullString
	err := row.Scan(append([]any{
		&d.Consumer, &d.EventID, &d.State, &d.Topic, &d.Partition, &d.Offset, &d.RecordTime, &d.Key, &d.PayloadBytes,
		&d.Attempts, &d.Deaths, &d.Replays, &d.DueAt, &class, &first, &last, &d.CreatedAt, &d.UpdatedAt,
	}, more...)...)
	d.ErrorClass, d.FirstError, d.LastError = class.String, first.String, last.String
	return err
}
