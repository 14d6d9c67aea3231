package outbox

import (
	"database/sql"
	"errors"
	"fmt"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
)

// unreadable makes Watermill's SQL subscriber fail on each poll instead of finding nothing for ever.
const unreadable = `do $$ begin raise exception 'the outbox is read by outbox.Subscriber, not by a subscriber of watermill-sql'; end $$`

// SchemaAdapter makes Watermill's SQL publisher write to the outbox. It is for those who construct that publisher
// themselves, on a transaction and without AutoInitializeSchema; Publisher does it for everybody else, translates errors and
// splits long lists.
//
// It only writes. Watermill's SQL subscriber cannot be used with it: acknowledging there moves an offset past events that
// have not committed yet, and knows neither leases nor receipts. Reading is Subscriber's work. The zero value is ready to use.
type SchemaAdapter struct {
	// Schema holds the outbox tables. Default DefaultSchema.
	Schema string

	// MaxRecordBytes is as in PublisherConfig. Default DefaultMaxRecordBytes.
	MaxRecordBytes int
}

var _ wsql.SchemaAdapter = SchemaAdapter{}

// InsertQuery checks the messages as Publisher does and writes them with one statement. It ends plainly, so that an event
// written twice fails. No messages make a statement that does nothing.
func (a SchemaAdapter) InsertQuery(topic string, messages message.Messages) (wsql.Query, error) {
	config := PublisherConfig{Schema: a.Schema, MaxRecordBytes: a.MaxRecordBytes}
	if err := config.Validate(); err != nil {
		return wsql.Query{}, fmt.Errorf("outbox: schema adapter: %w", err)
	}
	config.setDefaults()
	in, err := newInsertion(topic, messages, config.MaxRecordBytes)
	if err != nil {
		return wsql.Query{}, fmt.Errorf("outbox: %w", err)
	}
	switch {
	case len(in.rows) == 0:
		return wsql.Query{Query: "select"}, nil
	case len(in.rows) > maxRows:
		return wsql.Query{}, fmt.Errorf("outbox: %d messages do not fit one statement, the limit is %d", len(in.rows), maxRows)
	}
	return in.query(config.Schema), nil
}

// SelectQuery is a statement that fails: see SchemaAdapter.
func (SchemaAdapter) SelectQuery(string, string, wsql.OffsetsAdapter) wsql.Query {
	return wsql.Query{Query: unreadable}
}

// UnmarshalMessage returns an error with errors.ErrUnsupported in its chain: see SchemaAdapter.
func (SchemaAdapter) UnmarshalMessage(wsql.Scanner) (wsql.Row, error) {
	return wsql.Row{}, fmt.Errorf("outbox: reading through the schema adapter: %w", errors.ErrUnsupported)
}

// SchemaInitializingQueries is empty: tables are made by package migrations, never by a publisher.
func (SchemaAdapter) SchemaInitializingQueries(string) []wsql.Query { return nil }

// SubscribeIsolationLevel is the default: there is nothing to subscribe to.
func (SchemaAdapter) SubscribeIsolationLevel() sql.IsolationLevel { return sql.LevelDefault }

// insertAdapter lets Watermill's publisher run an insertion that has been checked already.
type insertAdapter struct {
	SchemaAdapter
	in insertion
}

func (a insertAdapter) InsertQuery(string, message.Messages) (wsql.Query, error) {
	return a.in.query(a.Schema), nil
}
