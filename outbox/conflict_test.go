package outbox_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/migrations"
	"github.com/millrace-go/millrace/outbox"
)

func migrate(t testing.TB, db *sql.DB, schema string) {
	t.Helper()
	require.NoError(t, migrations.Up(context.Background(), db, migrations.Config{Schema: schema}))
}

func TestEventWrittenTwiceIsLoud(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		publish := func(id string) error {
			return outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
				return newPublisher(t, tx).Publish("orders", named(id, event.Aggregate("order", "1", 1)))
			})
		}
		require.NoError(t, publish("a"))
		for id, constraint := range map[string]string{"a": "outbox_pkey", "b": "outbox_aggregate_version_key"} {
			err := publish(id)
			require.ErrorIs(t, err, outbox.ErrConflict)
			require.False(t, event.IsPermanent(err))
			var conflict *outbox.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, constraint, conflict.Constraint)
			require.Equal(t, []string{id}, conflict.EventIDs)
		}
		require.Equal(t, "a", writtenIDs(t, db))
	})
}

func TestOneVersionMayMakeSeveralEvents(t *testing.T) {
	db := testkit.Migrated(t)
	write(t, db, func(p *outbox.Publisher) error {
		version := event.Aggregate("order", "1", 1)
		require.NoError(t, p.Publish("orders", event.New("order.paid", nil, version), event.New("order.closed", nil, version)))
		return p.Publish("billing", event.New("order.paid", nil, version))
	})
	require.Equal(t, 3, scanOne[int](t, db, "select count(*) from millrace.outbox"))
}

func TestPublishNewGoesOnAfterConflicts(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		write(t, db, func(p *outbox.Publisher) error {
			return p.Publish("orders", named("a", event.Aggregate("order", "1", 1)), named("b"))
		})
		write(t, db, func(p *outbox.Publisher) error {
			conflicts, err := p.PublishNew("orders",
				named("new"),
				named("b"), // written before
				named("c", event.Aggregate("order", "1", 1)),  // the version is taken by a
				named("d", event.Aggregate("order", "2", 1)),  // new
				named("d2", event.Aggregate("order", "2", 1)), // taken by d, in the same call
				named("a", event.Aggregate("order", "1", 1)),
			)
			require.Equal(t, []outbox.Conflict{
				{EventID: "b", StoredID: "b"}, {EventID: "c", StoredID: "a"}, {EventID: "d2", StoredID: "d"}, {EventID: "a", StoredID: "a"},
			}, conflicts)
			require.NoError(t, err)
			return p.Publish("orders", named("and on"))
		})
		require.Equal(t, "a b new d and on", writtenIDs(t, db))
	})
}

func TestPublishNewWaitsForTheOtherWriter(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		first, err := db.Begin()
		require.NoError(t, err)
		defer first.Rollback() //nolint:errcheck // committed below
		require.NoError(t, newPublisher(t, first).Publish("orders", named("a")))
		done := make(chan []outbox.Conflict, 1)
		go func() {
			var conflicts []outbox.Conflict
			_ = outbox.InTx(context.Background(), db, func(_ context.Context, tx *sql.Tx) error {
				p, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
				if err == nil {
					conflicts, err = p.PublishNew("orders", named("a"))
				}
				return err
			})
			done <- conflicts
		}()
		waitForLock(t, db)
		require.NoError(t, first.Commit())
		require.Equal(t, []outbox.Conflict{{EventID: "a", StoredID: "a"}}, <-done, "it sees what was committed while it waited")
	})
}

func TestPositionGivenTwiceIsNoConflictOfEvents(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		key := event.PartitionKey("k") // one shard
		write(t, db, func(p *outbox.Publisher) error { return p.Publish("orders", named("a", key)) })
		_, err := db.Exec("alter table millrace.outbox alter column position restart")
		require.NoError(t, err)
		err = outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
			return newPublisher(t, tx).Publish("orders", named("b", key))
		})
		require.Error(t, err)
		require.NotErrorIs(t, err, outbox.ErrConflict)
		_, err = db.Exec("alter table millrace.outbox alter column position restart")
		require.NoError(t, err)
		err = outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
			_, err := newPublisher(t, tx).PublishNew("orders", named("b", key))
			return err
		})
		require.ErrorContains(t, err, "sequence", "it is not left out in silence")
	})
}
