package outbox

import (
	"context"
	"database/sql"

	"github.com/ThreeDotsLabs/watermill/message"
)

// SplitAndJoin is an event's way through the columns, without a database.
func SplitAndJoin(topic string, msg *message.Message) (*message.Message, error) {
	in, err := newInsertion(topic, []*message.Message{msg}, DefaultMaxRecordBytes)
	if err != nil {
		return nil, err
	}
	return in.rows[0].message()
}

// ReadBack is the event a row of the default schema stands for.
func ReadBack(ctx context.Context, db *sql.DB, eventID string) (*message.Message, error) {
	var s stored
	err := db.QueryRowContext(ctx, `select event_id, topic, kind, coalesce(aggregate_type, ''), coalesce(aggregate_id, ''),
		coalesce(aggregate_version, 0), event_type, event_version, coalesce(tenant, ''), partition_key, payload, metadata
		from millrace.outbox where event_id = $1`, eventID).Scan(&s.eventID, &s.topic, &s.kind, &s.aggregateType, &s.aggregateID,
		&s.aggregateVersion, &s.eventType, &s.eventVersion, &s.tenant, &s.partitionKey, &s.payload, &s.metadata)
	if err != nil {
		return nil, err
	}
	return s.message()
}
