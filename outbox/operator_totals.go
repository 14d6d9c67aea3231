package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"time"
)

var (
	//go:embed operator_totals.sql
	operatorTotalsSQL string
	//go:embed operator_held.sql
	operatorHeldSQL string
)

// Totals are how many events are in each state.
type Totals struct {
	Pending, Claimed                                     int64 // not sent yet, without and with a relay that is about to
	Retrying, Blocked, Quarantined, Scheduled, Discarded int64 // parked
	Sent                                                 int64

	// OldestPending is for how long the oldest event has been pending or claimed, 0 without any.
	OldestPending time.Duration

	// Oldest is the same for each state with an event, except "sent". Parked events count since they were parked.
	Oldest map[string]time.Duration

	Paused []Pause
	Held   []HeldTopic
}

// Stats counts the events, exactly and at one moment. It looks at every event that waits and counts all receipts, so it is
// for people and not for every second.
func (o *Operator) Stats(ctx context.Context) (Totals, error) {
	var t Totals
	err := o.uncompiled(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		t, err = o.totals(ctx, tx)
		return err
	})
	if err != nil {
		return Totals{}, fmt.Errorf("outbox: stats: %w", err)
	}
	return t, nil
}

func (o *Operator) totals(ctx context.Context, db operatorReads) (Totals, error) {
	t := Totals{Oldest: map[string]time.Duration{}}
	counts := map[string]*int64{
		"pending": &t.Pending, "claimed": &t.Claimed, stateRetrying: &t.Retrying, stateBlocked: &t.Blocked,
		stateQuarantined: &t.Quarantined, stateScheduled: &t.Scheduled, stateDiscarded: &t.Discarded, "sent": &t.Sent,
	}
	_, err := operatorRows(ctx, db, o.sql(operatorTotalsSQL), func(scan scanner) (struct{}, error) {
		var (
			state string
			n     int64
			age   sql.NullInt64
		)
		if err := scan(&state, &n, &age); err != nil {
			return struct{}{}, err
		}
		*counts[state] = n
		if age.Valid {
			t.Oldest[state] = time.Duration(age.Int64) * time.Millisecond
		}
		return struct{}{}, nil
	})
	if err != nil {
		return Totals{}, err
	}
	t.OldestPending = max(t.Oldest["pending"], t.Oldest["claimed"])
	if t.Paused, err = operatorRows(ctx, db, o.sql(operatorPausesSQL), scanPause); err != nil {
		return Totals{}, err
	}
	t.Held, err = operatorRows(ctx, db, o.sql(operatorHeldSQL), scanHeldTopic)
	return t, err
}

// Paused lists what operators have paused.
func (o *Operator) Paused(ctx context.Context) ([]Pause, error) {
	paused, err := operatorRows(ctx, o.db, o.sql(operatorPausesSQL), scanPause)
	if err != nil {
		return nil, fmt.Errorf("outbox: paused: %w", err)
	}
	return paused, nil
}

// Held lists the topics that are held, or catching up, in any shard.
func (o *Operator) Held(ctx context.Context) ([]HeldTopic, error) {
	held, err := operatorRows(ctx, o.db, o.sql(operatorHeldSQL), scanHeldTopic)
	if err != nil {
		return nil, fmt.Errorf("outbox: held: %w", err)
	}
	return held, nil
}
