package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

// errRefused rolls a batch back because a line of it is refused; errDryRun because it was to be.
var (
	errRefused = errors.New("a line of the batch is refused")
	errDryRun  = errors.New("dry run")
)

// publishBatch writes a batch in one transaction, or nothing of it when a line is refused, and counts.
func (p *filePublisher) publishBatch(ctx context.Context, batch []lineEvent, refused []refusedLine) error {
	duplicates := 0
	var err error
	switch {
	case len(refused) > 0:
		err = errRefused
	case len(batch) > 0:
		err = outbox.InTx(ctx, p.db, func(ctx context.Context, tx *sql.Tx) error {
			duplicates, refused, err = p.write(ctx, batch)
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

// write writes the events that are new.
func (p *filePublisher) write(ctx context.Context, batch []lineEvent) (duplicates int, refused []refusedLine, err error) {
	messages := make([]*message.Message, len(batch))
	for i, e := range batch {
		e.msg.SetContext(ctx)
		messages[i] = e.msg
	}
	conflicts, err := p.publisher.PublishNew(p.flags.topic, messages...)
	if errors.Is(err, event.ErrInvalid) {
		return 0, p.invalid(batch), nil
	}
	if err != nil {
		return 0, nil, err
	}
	for _, c := range conflicts {
		if c.StoredID == c.EventID {
			duplicates++
			continue
		}
		i := slices.IndexFunc(batch, func(e lineEvent) bool { return e.msg.Metadata.Get(event.IDKey) == c.EventID })
		refused = append(refused, refusedLine{batch[i].line,
			fmt.Sprintf("aggregate_version: event %s of the same type, topic and aggregate has it already", c.StoredID)})
	}
	return duplicates, refused, nil
}

// invalid finds the events the outbox refuses. They are refused before any SQL, and the transaction is rolled back anyway.
func (p *filePublisher) invalid(batch []lineEvent) []refusedLine {
	var refused []refusedLine
	for _, e := range batch {
		if _, err := p.publisher.PublishNew(p.flags.topic, e.msg); errors.Is(err, event.ErrInvalid) {
			refused = append(refused, newRefusedLine(e.line, err))
		}
	}
	return refused
}
