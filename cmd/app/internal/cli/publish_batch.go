package cli

import (
	"bytes"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/lib/pq"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

//go:embed stored.sql
var storedSQL string

// errRefused rolls a batch back because a line of it is refused; errDryRun because it was to be.
var (
	errRefused = errors.New("a line of the batch is refused")
	errDryRun  = errors.New("dry run")
)

// publishBatch writes a batch in one transaction, or nothing of it when a line is refused, and counts.
func (p *filePublisher) publishBatch(ctx context.Context, batch []lineEvent, refused []refusedLine) error {
	events, duplicates, repeated := distinct(batch)
	refused = append(refused, repeated...)
	var err error
	switch {
	case len(refused) > 0:
		err = errRefused
	case len(batch) > 0:
		err = outbox.InTx(ctx, p.db, func(ctx context.Context, tx *sql.Tx) error {
			var there int
			there, refused, err = p.write(ctx, events)
			duplicates += there
			if err == nil && len(refused) > 0 {
				err = errRefused
			}
			if err == nil && p.flags.dryRun {
				err = errDryRun
			}
			return err
		})
	}
	if err != nil && !errors.Is(err, errRefused) && !errors.Is(err, errDryRun) {
		return err
	}
	p.report.Read += len(batch)
	if len(refused) == 0 {
		p.report.Written += len(batch) - duplicates
		p.report.Duplicates += duplicates
		return nil
	}
	for _, r := range refused {
		// Lines that were no events are not in the batch.
		if !slices.ContainsFunc(batch, func(e lineEvent) bool { return e.line == r.Line }) {
			p.report.Read++
			p.report.Skipped++
		}
	}
	p.report.Skipped += len(batch) - len(refused)
	p.report.Refused = append(p.report.Refused, refused...)
	return nil
}

// distinct leaves out lines that repeat an earlier one of the batch, and refuses those that repeat its event_id only.
func distinct(batch []lineEvent) (events []lineEvent, duplicates int, refused []refusedLine) {
	first := map[string]lineEvent{}
	for _, e := range batch {
		id := e.msg.Metadata.Get(event.IDKey)
		earlier, is := first[id]
		switch {
		case !is:
			first[id] = e
			events = append(events, e)
		case sameContent(earlier.msg, e.msg):
			duplicates++
		default:
			refused = append(refused, refusedLine{e.line,
				fmt.Sprintf("event_id: line %d has it already, with other content", earlier.line)})
		}
	}
	return events, duplicates, refused
}

// sameContent tells a tombstone from an empty payload.
func sameContent(a, b *message.Message) bool {
	return maps.Equal(a.Metadata, b.Metadata) && bytes.Equal(a.Payload, b.Payload) && (a.Payload == nil) == (b.Payload == nil)
}

// write writes the events that are new.
func (p *filePublisher) write(ctx context.Context, batch []lineEvent) (duplicates int, refused []refusedLine, err error) {
	messages := make([]*message.Message, len(batch))
	for i, e := range batch {
		e.msg.SetContext(ctx)
		messages[i] = e.msg
	}
	conflicts, err := p.publisher.PublishNew(p.flags.topic, messages...)
	if errors.Is(err, event.ErrInvalid) {
		if refused = p.invalid(batch); len(refused) > 0 {
			return 0, refused, nil
		}
	}
	if err != nil {
		return 0, nil, err
	}
	there, err := p.stored(ctx, conflicts)
	if err != nil {
		return 0, nil, err
	}
	for _, c := range conflicts {
		i := slices.IndexFunc(batch, func(e lineEvent) bool { return e.msg.Metadata.Get(event.IDKey) == c.EventID })
		e, stored := batch[i], there[c.EventID]
		switch {
		case c.StoredID != c.EventID:
			refused = append(refused, refusedLine{e.line,
				fmt.Sprintf("aggregate_version: event %s of the same type, topic and aggregate has it already", c.StoredID)})
		case stored.topic != p.flags.topic:
			refused = append(refused, refusedLine{e.line, fmt.Sprintf("event_id: topic %s has it already", stored.topic)})
		case !bytes.Equal(stored.payload, e.msg.Payload) || (stored.payload == nil) != (e.msg.Payload == nil):
			refused = append(refused, refusedLine{e.line, "event_id: the outbox has it already, with another payload"})
		default:
			duplicates++
		}
	}
	return duplicates, refused, nil
}

type storedEvent struct {
	topic   string
	payload []byte
}

// stored reads what the outbox has under the ids of the conflicts.
func (p *filePublisher) stored(ctx context.Context, conflicts []outbox.Conflict) (map[string]storedEvent, error) {
	if len(conflicts) == 0 {
		return nil, nil
	}
	ids := make([]string, len(conflicts))
	for i, c := range conflicts {
		ids[i] = c.EventID
	}
	tx, _ := event.TxFromContext(ctx) // of InTx: a conflict may be with an event of the same transaction
	rows, err := tx.QueryContext(ctx, strings.ReplaceAll(storedSQL, "{{schema}}", pq.QuoteIdentifier(p.schema)), pq.Array(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	there := map[string]storedEvent{}
	for rows.Next() {
		var id string
		var e storedEvent
		if err := rows.Scan(&id, &e.topic, &e.payload); err != nil {
			return nil, err
		}
		there[id] = e
	}
	return there, rows.Err()
}

// invalid finds the events the outbox refuses. It writes nothing.
func (p *filePublisher) invalid(batch []lineEvent) []refusedLine {
	checks := outbox.SchemaAdapter{MaxRecordBytes: p.maxRecordBytes}
	var refused []refusedLine
	for _, e := range batch {
		if _, err := checks.InsertQuery(p.flags.topic, message.Messages{e.msg}); errors.Is(err, event.ErrInvalid) {
			refused = append(refused, newRefusedLine(e.line, err))
		}
	}
	return refused
}
