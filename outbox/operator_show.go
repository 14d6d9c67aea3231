package outbox

import (
	"context"
	_ "embed"
	"fmt"
)

var (
	//go:embed operator_place.sql
	operatorPlaceSQL string
	//go:embed operator_audit_of.sql
	operatorAuditOfSQL string
)

// Show returns everything about one event, in whatever state it is, its payload only where that is asked for; or ErrNotFound.
func (o *Operator) Show(ctx context.Context, eventID string, payload bool) (EventDetail, error) {
	d, err := o.show(ctx, eventID, payload)
	if err != nil {
		return EventDetail{}, fmt.Errorf("outbox: show: %w", err)
	}
	return d, nil
}

func (o *Operator) show(ctx context.Context, eventID string, payload bool) (EventDetail, error) {
	if !storable(eventID) {
		return EventDetail{}, ErrNotFound
	}
	ids := []string{eventID}
	// Before the event, so that one that is sent in between is shown as sent.
	parked, err := o.parked(ctx, o.db, ids, ParkedFilter{Limit: 1})
	if err != nil {
		return EventDetail{}, err
	}
	events, err := o.events(ctx, o.db, ids, payload)
	if err != nil {
		return EventDetail{}, err
	}
	e, ok := events[eventID]
	if !ok {
		return EventDetail{}, fmt.Errorf("event %s: %w", eventID, ErrNotFound)
	}
	d, err := e.detail()
	if err != nil {
		return EventDetail{}, err
	}
	if len(parked) == 1 && d.Receipt == nil {
		d.Parked, d.State = &parked[0], parked[0].State
		if err := o.place(ctx, &d); err != nil {
			return EventDetail{}, err
		}
	}
	d.Audit, err = operatorRows(ctx, o.db, o.sql(operatorAuditOfSQL), scanAuditEntry, eventID)
	return d, err
}

// place finds out where in the order of its key a parked event is.
func (o *Operator) place(ctx context.Context, d *EventDetail) error {
	p := d.Parked
	if !p.Blocks || p.PartitionKey == nil {
		return nil
	}
	row := o.db.QueryRowContext(ctx, o.sql(operatorPlaceSQL), p.Shard, p.Topic, *p.PartitionKey, p.Entry)
	return row.Scan(&d.Ahead, &d.Behind)
}
