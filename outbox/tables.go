package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"

	"github.com/millrace-go/millrace/event"
)

//go:embed next_version.sql
var nextVersionSQL string

// Tables are the outbox tables of a schema, for those who keep them in another than DefaultSchema; NextVersion and Lookup are
// the same for the default. The zero value means DefaultSchema.
type Tables struct {
	Schema string
}

// NextVersion is Tables.NextVersion in the default schema.
func NextVersion(ctx context.Context, tx *sql.Tx, aggregateType, aggregateID string) (int64, error) {
	return Tables{}.NextVersion(ctx, tx, aggregateType, aggregateID)
}

// NextVersion hands out the versions of an aggregate, 1 first, for business tables that keep none themselves. It locks the
// aggregate until the transaction ends: call it before publishing, and the events of the aggregate get their positions in the
// order of their versions, without gaps. Transactions that need several aggregates should take them in a fixed order.
func (t Tables) NextVersion(ctx context.Context, tx *sql.Tx, aggregateType, aggregateID string) (int64, error) {
	query, err := t.load(nextVersionSQL)
	if err != nil {
		return 0, fmt.Errorf("outbox: next version: %w", err)
	}
	for _, v := range []string{aggregateType, aggregateID} {
		if v == "" || len(v) > maxColumnLength || !storable(v) {
			return 0, fmt.Errorf("outbox: next version: %w", event.Permanent(fmt.Errorf(
				"%w: aggregate type and id are 1 to %d bytes of UTF-8 without U+0000", event.ErrInvalid, maxColumnLength)))
		}
	}
	var version int64
	if err := tx.QueryRowContext(ctx, query, aggregateType, aggregateID).Scan(&version); err != nil {
		return 0, fmt.Errorf("outbox: next version: %w", explain(err))
	}
	return version, nil
}

func (t Tables) schema() string {
	if t.Schema == "" {
		return DefaultSchema
	}
	return t.Schema
}

func (t Tables) load(raw string) (string, error) {
	if err := validateSchema(t.schema()); err != nil {
		return "", err
	}
	return loadSQL(raw, t.schema()), nil
}
