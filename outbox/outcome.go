package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/event"
)

var (
	//go:embed lookup.sql
	lookupSQL string
	//go:embed lookup_probe.sql
	lookupProbeSQL string
)

// Outcome is what became of an event.
type Outcome struct {
	// Committed says whether the event is in the outbox. The other fields are zero unless it is.
	Committed bool

	Position  int64
	Shard     int
	Topic     string
	CreatedAt time.Time // by the database's clock
}

// Lookup is Tables.Lookup in the default schema.
func Lookup(ctx context.Context, db *sql.DB, eventID string) (Outcome, error) {
	return Tables{}.Lookup(ctx, db, eventID)
}

// Lookup says whether the transaction that wrote an event has committed, for callers of whom ErrOutcomeUnknown has kept it.
// The answer is final: a COMMIT that is still under way, or a transaction that hangs without one, is waited for. ctx bounds
// the wait; its end, like every error, leaves the outcome unknown. An event that retention has removed is as absent as one
// that was never written, so ask soon.
//
// It needs a primary and the right to insert into the outbox, where it leaves nothing behind.
func (t Tables) Lookup(ctx context.Context, db *sql.DB, eventID string) (Outcome, error) {
	outcome, err := t.lookup(ctx, db, eventID)
	if err != nil {
		return Outcome{}, fmt.Errorf("outbox: lookup: %w", explain(err))
	}
	return outcome, nil
}

func (t Tables) lookup(ctx context.Context, db *sql.DB, eventID string) (Outcome, error) {
	query, err := t.load(lookupSQL)
	if err != nil {
		return Outcome{}, err
	}
	if err := event.ValidateID(eventID); err != nil {
		return Outcome{}, event.Permanent(err)
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return Outcome{}, err
	}
	defer tx.Rollback() //nolint:errcheck // the probe must not stay; a lost connection rolls back as well
	find := func() (o Outcome, err error) {
		err = tx.QueryRowContext(ctx, query, eventID).Scan(&o.Position, &o.Shard, &o.Topic, &o.CreatedAt)
		o.Committed = err == nil
		return o, err
	}
	outcome, err := find()
	if !errors.Is(err, sql.ErrNoRows) {
		return outcome, err
	}
	result, err := tx.ExecContext(ctx, loadSQL(lookupProbeSQL, t.schema()), eventID)
	if err != nil {
		return Outcome{}, err
	}
	probed, err := result.RowsAffected()
	if err != nil || probed > 0 {
		return Outcome{}, err
	}
	return find()
}
