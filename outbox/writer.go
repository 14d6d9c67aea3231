package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/lib/pq"
)

//go:embed insert_conflicts.sql
var insertConflictsSQL string

// errPosition is about unique (shard, position), which only a sequence that was set back can violate.
var errPosition = errors.New("its position was given before: has the sequence of outbox.position been reset?")

// writer is what the publishers have in common.
type writer struct {
	config PublisherConfig
	logger watermill.LoggerAdapter
	closed atomic.Bool
}

func newWriter(config PublisherConfig, logger watermill.LoggerAdapter) (*writer, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("outbox: publisher: %w", err)
	}
	config.setDefaults()
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	return &writer{config: config, logger: logger}, nil
}

// publish writes the messages or fails.
func (w *writer) publish(tx *sql.Tx, topic string, messages []*message.Message) error {
	return w.each(topic, messages, func(ctx context.Context, part insertion) error {
		publisher, err := wsql.NewPublisher(executor{tx, ctx}, wsql.PublisherConfig{
			SchemaAdapter: insertAdapter{SchemaAdapter{Schema: w.config.Schema}, part},
		}, watermill.NopLogger{}) // it would log payloads
		if err != nil {
			return err
		}
		// The messages are in the adapter already.
		if err := publisher.Publish(topic); err != nil {
			return conflictError(err, part.rows)
		}
		w.trace(part.rows)
		return nil
	})
}

// publishNew writes the messages that conflict with nothing and returns the others.
func (w *writer) publishNew(tx *sql.Tx, topic string, messages []*message.Message) (conflicts []Conflict, err error) {
	err = w.each(topic, messages, func(ctx context.Context, part insertion) error {
		refused, err := w.insertNew(ctx, tx, part)
		if err != nil || len(refused) == 0 {
			return err
		}
		found, err := w.conflicts(ctx, tx, topic, refused)
		conflicts = append(conflicts, found...)
		return err
	})
	return conflicts, err
}

// each checks all messages before it hands the first part of them to insert.
func (w *writer) each(topic string, messages []*message.Message, insert func(context.Context, insertion) error) error {
	if w.closed.Load() {
		return fmt.Errorf("outbox: publish: %w", wsql.ErrPublisherClosed)
	}
	if len(messages) == 0 {
		return nil
	}
	rest, err := newInsertion(topic, messages, w.config.MaxRecordBytes)
	if err != nil {
		return fmt.Errorf("outbox: publish: %w", err)
	}
	ctx := messages[0].Context()
	for len(rest.rows) > 0 {
		var part insertion
		part, rest = rest.cut(w.config.MaxRows)
		if err := insert(ctx, part); err != nil {
			return fmt.Errorf("outbox: publish: %w", err)
		}
	}
	return nil
}

// insertNew writes what it can and returns the rows it could not write.
func (w *writer) insertNew(ctx context.Context, tx *sql.Tx, part insertion) (refused []stored, err error) {
	query := part.query(w.config.Schema)
	rows, err := tx.QueryContext(ctx, query.Query+" on conflict do nothing returning event_id", query.Args...)
	if err != nil {
		return nil, explain(err)
	}
	ids, err := scanStrings(rows)
	if err != nil {
		return nil, explain(err)
	}
	written := make(map[string]bool, len(ids))
	for _, id := range ids {
		written[id.String] = true
	}
	var inserted []stored
	for _, row := range part.rows {
		if written[row.eventID] {
			inserted = append(inserted, row)
		} else {
			refused = append(refused, row)
		}
	}
	w.trace(inserted)
	return refused, nil
}

// conflicts finds out what the refused rows conflict with. This takes a statement of its own: the one that refused them
// cannot see what was committed while it waited.
func (w *writer) conflicts(ctx context.Context, tx *sql.Tx, topic string, refused []stored) ([]Conflict, error) {
	n := len(refused)
	eventIDs, types, ids, eventTypes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	versions := make([]int64, n)
	for i, row := range refused {
		eventIDs[i], types[i], ids[i], versions[i] = row.eventID, row.aggregateType, row.aggregateID, row.aggregateVersion
		eventTypes[i] = row.eventType
	}
	rows, err := tx.QueryContext(ctx, loadSQL(insertConflictsSQL, w.config.Schema), pq.Array(eventIDs), topic, pq.Array(types),
		pq.Array(ids), pq.Array(versions), pq.Array(eventTypes))
	if err != nil {
		return nil, err
	}
	there, err := scanStrings(rows)
	if err != nil {
		return nil, err
	}
	conflicts := make([]Conflict, n)
	for i, row := range refused {
		if !there[i].Valid {
			return nil, fmt.Errorf("event_id %q: %w", row.eventID, errPosition)
		}
		conflicts[i] = Conflict{EventID: row.eventID, StoredID: there[i].String}
	}
	return conflicts, nil
}

func (w *writer) trace(rows []stored) {
	for i := range rows {
		w.logger.Trace("Event written to the outbox", watermill.LogFields{"event_id": rows[i].eventID, "topic": rows[i].topic})
	}
}

func (w *writer) close() { w.closed.Store(true) }

func scanStrings(rows *sql.Rows) (values []sql.NullString, err error) {
	defer rows.Close()
	for rows.Next() {
		var value sql.NullString
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}

// executor runs the statements of Watermill's publisher, which knows no context, under the context of the message. It lives
// for one call.
type executor struct {
	*sql.Tx
	ctx context.Context //nolint:containedctx // see above
}

func (e executor) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	return e.Tx.ExecContext(e.ctx, query, args...)
}
