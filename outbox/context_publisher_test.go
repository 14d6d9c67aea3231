package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

func newContextPublisher(t testing.TB) *outbox.ContextPublisher {
	t.Helper()
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	require.NoError(t, err)
	return publisher
}

func TestEventWithoutATransactionIsRefused(t *testing.T) {
	_, err := outbox.NewPublisher(nil, outbox.PublisherConfig{}, nil)
	require.ErrorIs(t, err, outbox.ErrNoTx)
	publisher := newContextPublisher(t)
	require.ErrorIs(t, publisher.Publish("orders", named("a")), outbox.ErrNoTx)
	_, err = publisher.PublishNew("orders", named("a"))
	require.ErrorIs(t, err, outbox.ErrNoTx)
	require.NoError(t, publisher.Publish("orders"), "nothing needs no transaction")
	require.Error(t, publisher.Publish("orders", nil))
}

func TestMessagesOfOneCallShareOneTransaction(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		publisher := newContextPublisher(t)
		require.NoError(t, outbox.InTx(t.Context(), db, func(_ context.Context, one *sql.Tx) error {
			return outbox.InTx(t.Context(), db, func(_ context.Context, other *sql.Tx) error {
				require.ErrorContains(t, publisher.Publish("orders", event.InTx(t.Context(), named("a"), one), event.InTx(t.Context(), named("b"), other)), "message 1")
				require.ErrorIs(t, publisher.Publish("orders", event.InTx(t.Context(), named("a"), one), named("b")), outbox.ErrNoTx)
				require.NoError(t, publisher.Publish("orders", event.InTx(t.Context(), named("c"), one), event.InTx(t.Context(), named("d"), one)))
				return publisher.Publish("orders", event.InTx(t.Context(), named("e"), other))
			})
		}))
		require.Equal(t, "c d e", writtenIDs(t, db))
	})
}

func TestContextOfTheMessageEndsAStuckInsert(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		lock, err := db.Begin()
		require.NoError(t, err)
		defer lock.Rollback() //nolint:errcheck // the end of the test
		_, err = lock.Exec("lock table millrace.outbox in exclusive mode")
		require.NoError(t, err)
		for name, publish := range map[string]func(*message.Message) error{
			"Publish": func(msg *message.Message) error { return newContextPublisher(t).Publish("orders", msg) },
			"PublishNew": func(msg *message.Message) error {
				_, err := newContextPublisher(t).PublishNew("orders", msg)
				return err
			},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				tx, err := db.Begin() // under no context: only the message's can end the statement
				require.NoError(t, err)
				defer tx.Rollback() //nolint:errcheck // the end of the test
				msg := named("a")
				msg.SetContext(event.ContextWithTx(ctx, tx))
				errs := make(chan error, 1)
				go func() { errs <- publish(msg) }()
				waitForLock(t, db)
				cancel()
				require.Error(t, <-errs)
			})
		}
	})
}

func TestPublisherThatIsClosedRefuses(t *testing.T) {
	db := testkit.Migrated(t)
	require.NoError(t, outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
		long, short := newContextPublisher(t), newPublisher(t, tx)
		for range 2 {
			require.NoError(t, long.Close())
			require.NoError(t, short.Close())
		}
		require.ErrorIs(t, long.Publish("orders", event.InTx(t.Context(), named("a"), tx)), wsql.ErrPublisherClosed)
		require.ErrorIs(t, short.Publish("orders", named("a")), wsql.ErrPublisherClosed)
		_, err := tx.ExecContext(ctx, "select 1")
		return err
	}))
}

func TestWatermillsOwnPublisherWritesThroughTheSchemaAdapter(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		require.NoError(t, outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
			publisher, err := wsql.NewPublisher(tx, wsql.PublisherConfig{SchemaAdapter: outbox.SchemaAdapter{}}, nil)
			require.NoError(t, err)
			require.NoError(t, publisher.Publish("orders"), "nothing")
			require.ErrorIs(t, publisher.Publish("orders", named("bad\n")), event.ErrInvalid)
			return publisher.Publish("orders", named("a"), named("b"))
		}))
		require.Equal(t, "a b", writtenIDs(t, db))
	})
}

func TestSchemaAdapterDoesNotPretendToRead(t *testing.T) {
	adapter := outbox.SchemaAdapter{}
	_, err := adapter.UnmarshalMessage(nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.Empty(t, adapter.SchemaInitializingQueries("orders"))
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		query := adapter.SelectQuery("orders", "", wsql.DefaultPostgreSQLOffsetsAdapter{})
		_, err := db.Exec(query.Query, query.Args...)
		require.ErrorContains(t, err, "outbox.Subscriber")
	})
	_, err = outbox.SchemaAdapter{Schema: "Bad"}.InsertQuery("orders", nil)
	require.ErrorContains(t, err, "Schema")
	many := make([]*message.Message, 6000)
	for i := range many {
		many[i] = event.New("t", nil)
	}
	_, err = adapter.InsertQuery("orders", many)
	require.ErrorContains(t, err, "6000")
}
