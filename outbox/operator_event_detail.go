package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"time"

	"github.com/lib/pq"
)

//go:embed operator_event.sql
var operatorEventSQL string

// EventDetail is all the outbox knows of one event.
type EventDetail struct {
	EventID          string            `json:"event_id"`
	State            string            `json:"state"` // pending, claimed or sent, or that of Parked
	Topic            string            `json:"topic"`
	Kind             string            `json:"event_kind"`
	Type             string            `json:"event_type"`
	Version          int               `json:"event_version"`
	AggregateType    string            `json:"aggregate_type,omitempty"`
	AggregateID      string            `json:"aggregate_id,omitempty"`
	AggregateVersion int64             `json:"aggregate_version,omitempty"`
	Tenant           string            `json:"tenant,omitempty"`
	PartitionKey     *string           `json:"partition_key"`
	Metadata         map[string]string `json:"metadata"` // as written; what is sent instead is in Parked
	DeliverAt        *time.Time        `json:"deliver_at"`
	CreatedAt        time.Time         `json:"created_at"`
	Shard            int16             `json:"shard"`
	Position         int64             `json:"position"`

	// PayloadBytes is nil for a tombstone. Payload is only read where it was asked for.
	PayloadBytes *int64 `json:"payload_bytes"`
	Payload      []byte `json:"-"`

	// Held says why its topic is held in its shard: paused, unavailable or stalled.
	Held string `json:"held,omitempty"`

	Receipt *StoredReceipt `json:"receipt"` // nil = not sent
	Parked  *ParkedEvent   `json:"parked"`  // nil = not parked

	// Ahead and Behind are how many parked events of its key are before and after it, where it takes part in their order.
	Ahead  int64 `json:"ahead"`
	Behind int64 `json:"behind"`

	Audit []AuditEntry `json:"audit"`
}

// storedEvent is a row of operator_event.sql.
type storedEvent struct {
	stored
	position  int64
	bytes     *int64
	deliverAt *time.Time
	receipt   *StoredReceipt
	live      bool   // a relay owns its shard
	held      string // why its topic is not sent
}

func scanStoredEvent(scan scanner) (e storedEvent, err error) {
	var (
		metadata         sql.NullString
		sentAt           *time.Time
		topic            sql.NullString
		receipt          StoredReceipt
		attempts         sql.NullInt64
		version          sql.NullInt64
		partition, place sql.NullInt64
	)
	err = scan(&e.eventID, &e.shard, &e.position, &e.topic, &e.kind, &e.aggregateType, &e.aggregateID,
		&e.aggregateVersion, &e.eventType, &e.eventVersion, &e.tenant, &e.partitionKey,
		&metadata, &e.bytes, &e.payload, &e.deliverAt, &e.createdAt,
		&sentAt, &topic, &partition, &place, &attempts, &version, &e.live, &e.held)
	e.stored.metadata = []byte(metadata.String)
	if sentAt != nil {
		receipt.SentAt, receipt.Topic, receipt.Attempts, receipt.ClaimVersion = sentAt.UTC(), topic.String, int(attempts.Int64), version.Int64
		if receipt.Topic == "" {
			receipt.Topic = e.topic
		}
		if partition.Valid {
			p := int32(partition.Int64) //nolint:gosec // the column is an integer
			receipt.Partition = &p
		}
		if place.Valid {
			receipt.Offset = &place.Int64
		}
		e.receipt = &receipt
	}
	return e, err
}

// state is the event's unless it is parked.
func (e *storedEvent) state() string {
	switch {
	case e.receipt != nil:
		return "sent"
	case e.live && e.held == "":
		return "claimed"
	default:
		return "pending"
	}
}

// metadata is what is sent with the event.
func (e *storedEvent) metadata(override map[string]*string) (map[string]string, error) {
	msg, err := e.message()
	if err != nil {
		return nil, err
	}
	for key, value := range override {
		if value == nil {
			delete(msg.Metadata, key)
		} else {
			msg.Metadata[key] = *value
		}
	}
	return msg.Metadata, nil
}

// events reads events by event_id.
func (o *Operator) events(ctx context.Context, db operatorReads, ids []string, payload bool) (map[string]storedEvent, error) {
	list, err := operatorRows(ctx, db, o.sql(operatorEventSQL), scanStoredEvent, pq.Array(ids), payload)
	if err != nil {
		return nil, err
	}
	events := make(map[string]storedEvent, len(list))
	for _, e := range list {
		events[e.eventID] = e
	}
	return events, nil
}

// detail is the event as people look at it.
func (e *storedEvent) detail() (EventDetail, error) {
	metadata, err := e.metadata(nil)
	if err != nil {
		return EventDetail{}, fmt.Errorf("event %s: %w", e.eventID, err)
	}
	d := EventDetail{
		EventID: e.eventID, State: e.state(), Topic: e.topic, Kind: e.kind, Type: e.eventType, Version: e.eventVersion,
		AggregateType: e.aggregateType, AggregateID: e.aggregateID, AggregateVersion: e.aggregateVersion, Tenant: e.tenant,
		Metadata: metadata, DeliverAt: inUTC(e.deliverAt), CreatedAt: e.createdAt.UTC(), Shard: e.shard, Position: e.position,
		PayloadBytes: e.bytes, Payload: e.payload, Receipt: e.receipt, Held: e.held,
	}
	if e.partitionKey.Valid {
		d.PartitionKey = &e.partitionKey.String
	}
	return d, nil
}
