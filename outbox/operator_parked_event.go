package outbox

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// ParkedEvent is an event that was read but not sent, as people look at it. The JSON is that of the command line.
type ParkedEvent struct {
	EventID       string  `json:"event_id"`
	Topic         string  `json:"topic"` // its own; where it goes is TopicOverride, unless that is empty
	PartitionKey  *string `json:"partition_key"`
	AggregateType string  `json:"aggregate_type,omitempty"`
	AggregateID   string  `json:"aggregate_id,omitempty"`
	Shard         int16   `json:"shard"`
	Position      int64   `json:"position"`

	// Entry is its place among all parked events.
	Entry int64 `json:"entry"`

	// State is scheduled, retrying, blocked, quarantined or discarded.
	State string `json:"state"`

	// Blocks says that later events of its key wait for it, as it does for earlier ones.
	Blocks bool `json:"blocks"`

	// WaitsFor is the event_id of the head of its key, if it is blocked by one, Paused that its aggregate is paused.
	WaitsFor string `json:"waits_for,omitempty"`
	Paused   bool   `json:"paused"`

	// Followers is how many events wait for this one, if it is the head of its key.
	Followers int64 `json:"followers"`

	Attempts   int        `json:"attempts"`
	DueAt      *time.Time `json:"due_at"` // while scheduled or retrying
	Stage      string     `json:"stage"`  // where it failed: decode, publish or relay
	ErrorClass string     `json:"error_class"`
	FirstError string     `json:"first_error"`
	LastError  string     `json:"last_error"`

	// What operators have changed.
	TopicOverride    string             `json:"topic_override,omitempty"`
	MetadataOverride map[string]*string `json:"metadata_override,omitempty"` // nil = removed
	Owner            string             `json:"owner"`
	Revision         int                `json:"revision"`

	ParkedAt  time.Time `json:"parked_at"`
	UpdatedAt time.Time `json:"updated_at"`

	headState string // of WaitsFor
}

// scanParkedEvent reads a row of operator_parked.sql.
func scanParkedEvent(scan scanner) (ParkedEvent, error) {
	var (
		p        ParkedEvent
		metadata sql.NullString
	)
	err := scan(&p.EventID, &p.Topic, &p.PartitionKey, &p.AggregateType, &p.AggregateID, &p.Shard, &p.Position,
		&p.Entry, &p.State, &p.Blocks, &p.Attempts, &p.DueAt, &p.Stage, &p.ErrorClass,
		&p.FirstError, &p.LastError, &p.TopicOverride, &metadata,
		&p.Owner, &p.Revision, &p.ParkedAt, &p.UpdatedAt, &p.WaitsFor, &p.headState, &p.Paused, &p.Followers)
	if err == nil && metadata.Valid {
		if err = json.Unmarshal([]byte(metadata.String), &p.MetadataOverride); err != nil {
			err = fmt.Errorf("column metadata_override: %w", err)
		}
	}
	p.DueAt, p.ParkedAt, p.UpdatedAt = inUTC(p.DueAt), p.ParkedAt.UTC(), p.UpdatedAt.UTC()
	return p, err
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// waitsFor says what a blocked event waits for, and what to do about it.
func (p *ParkedEvent) waitsFor() string {
	switch {
	case p.WaitsFor != "":
		return fmt.Sprintf("it waits for event %s of its key, which is %s: retry, skip or discard that one", p.WaitsFor, p.headState)
	case p.Paused:
		return fmt.Sprintf("its aggregate %s/%s is paused: resume that", p.AggregateType, p.AggregateID)
	default:
		return "nothing is before it any more: its relay is about to release it"
	}
}
