package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/lib/pq"

	"github.com/millrace-go/millrace/event"
)

// subscription emits the replayed events of one consumer that came from one topic.
type subscription struct {
	store    *Store
	config   SubscriberConfig
	logger   watermill.LoggerAdapter
	topic    string
	messages chan *message.Message
	pauses   pauses
}

// run polls until ctx ends. That ends the emitting only: routers end it as soon as they begin to close, and the handler of
// the message in hand is to finish.
func (s *subscription) run(ctx context.Context) {
	handling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ticker := time.NewTicker(s.config.PollInterval)
	defer ticker.Stop()
	failing := false
	for {
		due, err := s.due(ctx, handling)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			s.logger.Error("Replayed events cannot be read, trying on", err, watermill.LogFields{"topic": s.topic})
		case err == nil && failing:
			s.logger.Info("Replayed events can be read again", watermill.LogFields{"topic": s.topic})
		}
		failing = err != nil
		for _, msg := range due {
			if ctx.Err() != nil {
				return
			}
			s.emit(ctx, msg)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// emit returns when the message is answered, or ctx has ended and the handler has had its time.
func (s *subscription) emit(ctx context.Context, msg *message.Message) {
	id := msg.UUID // the handler may change its message
	select {
	case s.messages <- msg:
	case <-ctx.Done():
		return
	}
	select {
	case <-msg.Acked():
		s.pauses.end(id)
		return
	case <-msg.Nacked():
		s.pauses.extend(id, s.config.PollInterval, time.Now())
		return
	case <-ctx.Done():
	}
	timeout := time.NewTimer(s.config.CloseTimeout)
	defer timeout.Stop()
	select {
	case <-msg.Acked():
	case <-msg.Nacked():
	case <-timeout.C:
	}
}

// due reads under ctx the next events, whose messages will live under handling.
func (s *subscription) due(ctx, handling context.Context) ([]*message.Message, error) {
	rows, err := s.store.db.QueryContext(ctx, s.store.query(dueSQL), s.config.Consumer, s.topic, s.config.BatchSize, s.config.BatchBytes,
		pq.Array(s.pauses.current(time.Now())))
	if err != nil {
		return nil, fmt.Errorf("inbox: read due events: %w", err)
	}
	defer rows.Close()
	var due []*message.Message
	for rows.Next() {
		msg, err := s.message(handling, rows)
		if err != nil {
			return nil, fmt.Errorf("inbox: read due events: %w", err)
		}
		due = append(due, msg)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("inbox: read due events: %w", err)
	}
	return due, nil
}

// present keeps an empty value apart from none: lib/pq reads both as nil where bytea_output is escape.
func present(value []byte, null bool) []byte {
	if value == nil && !null {
		return []byte{}
	}
	return value
}

func (s *subscription) message(ctx context.Context, rows *sql.Rows) (*message.Message, error) {
	var (
		id           string
		partition    sql.NullInt32
		offset       sql.NullInt64
		recordTime   sql.NullTime
		key, headers []byte
		payload      []byte

		keyless, tombstone bool
	)
	if err := rows.Scan(&id, &partition, &offset, &recordTime, &key, &keyless, &payload, &tombstone, &headers); err != nil {
		return nil, err
	}
	key, payload = present(key, keyless), present(payload, tombstone)
	metadata, err := decodeHeaders(headers)
	if err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, replayedKey{}, Replayed{Consumer: s.config.Consumer, EventID: id})
	if partition.Valid && offset.Valid {
		ctx = event.ContextWithDelivery(ctx, event.Delivery{
			Topic: s.topic, Partition: partition.Int32, Offset: offset.Int64, Key: key, Timestamp: recordTime.Time,
		})
	}
	msg := message.NewMessageWithContext(ctx, id, payload)
	msg.Metadata = metadata
	return msg, nil
}
