package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrNotFound says that the consumer has no row for the event.
var ErrNotFound = errors.New("not found")

// List returns a page of dead letters, the longest dead first.
func (s *Store) List(ctx context.Context, filter Filter) ([]DeadLetter, error) {
	filter.setDefaults()
	if err := filter.Validate(); err != nil {
		return nil, fmt.Errorf("inbox: list: %w", err)
	}
	rows, err := s.db.QueryContext(ctx, s.query(listSQL), filter.Consumer, filter.Topic, filter.EventID, filter.ErrorClass,
		filter.After.UpdatedAt, filter.After.Consumer, filter.After.EventID, filter.Limit)
	if err != nil {
		return nil, fmt.Errorf("inbox: list: %w", err)
	}
	defer rows.Close()
	var page []DeadLetter
	for rows.Next() {
		var d DeadLetter
		if err := d.scan(rows); err != nil {
			return nil, fmt.Errorf("inbox: list: %w", err)
		}
		page = append(page, d)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("inbox: list: %w", err)
	}
	return page, nil
}

// Show returns everything the inbox knows of one event of one consumer, whatever state it is in, or ErrNotFound.
func (s *Store) Show(ctx context.Context, consumer, eventID string) (DeadLetter, error) {
	var (
		d       DeadLetter
		headers []byte
		stack   sql.NullString

		tombstone bool
	)
	if !isText(consumer) || !isText(eventID) {
		return DeadLetter{}, fmt.Errorf("inbox: show: %w", ErrNotFound)
	}
	err := d.scan(s.db.QueryRowContext(ctx, s.query(showSQL), consumer, eventID), &d.Payload, &tombstone, &headers, &stack)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err == nil && headers != nil {
		d.Payload = present(d.Payload, tombstone)
		d.Headers, err = decodeHeaders(headers)
	}
	if err != nil {
		return DeadLetter{}, fmt.Errorf("inbox: show: %w", err)
	}
	d.Stack = stack.String
	return d, nil
}
