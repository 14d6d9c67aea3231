package integration_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
)

// pay is the business transaction of these tests: a new order and an event about it.
func (s *system) pay(order string, end error) error {
	return outbox.InTx(context.Background(), s.db, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "insert into orders values ($1, 'paid', 1)", order); err != nil {
			return err
		}
		if err := s.outbox.Publish(s.topic, event.InTx(ctx, orderEvent(order, 1), tx)); err != nil {
			return err
		}
		return end
	})
}

func TestCommitPublishes(t *testing.T) {
	s := newSystem(t, 1)
	require.NoError(t, s.pay("7", nil))
	require.Equal(t, 1, s.relayOnce())
	require.Equal(t, 1, s.count("select count(*) from orders"))
	require.Equal(t, []string{"7-v1"}, s.wire())
}

// The rolled-back transaction is also the first that ever publishes to its topic: nothing is set up on the way that would
// commit it.
func TestRollbackPublishesNothing(t *testing.T) {
	s := newSystem(t, 1)
	require.ErrorIs(t, s.pay("7", errFailed), errFailed)
	require.Zero(t, s.relayOnce())
	require.Zero(t, s.count("select count(*) from orders"))
	require.Zero(t, s.count("select count(*) from millrace.outbox"))
	require.Empty(t, s.wire())
}

func TestFailedOutboxInsertLeavesTheBusinessStatusUnchanged(t *testing.T) {
	s := newSystem(t, 1)
	require.NoError(t, s.pay("7", nil))
	err := outbox.InTx(context.Background(), s.db, func(ctx context.Context, tx *sql.Tx) error {
		err := outbox.UpdateVersioned(ctx, tx, "update orders set state = 'shipped', version = 2 where id = '7' and version = 1")
		require.NoError(t, err)
		return s.outbox.Publish(s.topic, event.InTx(ctx, orderEvent("7", 1), tx)) // this event_id is taken
	})
	require.ErrorIs(t, err, outbox.ErrConflict)
	require.Equal(t, []string{"paid"}, s.column("select state from orders where id = '7' and version = 1"))
	require.Equal(t, 1, s.relayOnce())
	require.Equal(t, []string{"7-v1"}, s.wire())
}

func TestDatabaseWithoutTablesSaysWhatToRunAndCommitsNothing(t *testing.T) {
	db := testkit.DB(t)
	_, err := db.Exec(businessTables)
	require.NoError(t, err)
	s := &system{t: t, db: db, topic: "orders", logs: &journal{}}
	s.outbox, err = outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	require.NoError(t, err)

	err = s.pay("7", nil)
	require.ErrorIs(t, err, outbox.ErrNotMigrated)
	require.ErrorContains(t, err, "millrace migrate up")
	require.Zero(t, s.count("select count(*) from orders"))

	s.brokers = testkit.Kafka(t)
	_, err = s.forwarder(s.producer(kafka.PublisherConfig{}), quick()).RunOnce(context.Background(), 1)
	require.ErrorIs(t, err, outbox.ErrNotMigrated)
	require.ErrorContains(t, err, "millrace migrate up")
}

func TestSavepointRolledBackPublishesNothingOfIt(t *testing.T) {
	s := newSystem(t, 1)
	require.NoError(t, outbox.InTx(context.Background(), s.db, func(ctx context.Context, tx *sql.Tx) error {
		publish := func(id string) {
			require.NoError(t, s.outbox.Publish(s.topic, event.InTx(ctx, event.New("step", nil, event.WithID(id)), tx)))
		}
		run := func(statement string) {
			_, err := tx.ExecContext(ctx, statement)
			require.NoError(t, err)
		}
		publish("E1")
		run("savepoint s")
		publish("E2")
		run("rollback to savepoint s")
		publish("E3")
		return nil
	}))
	require.Equal(t, 2, s.relayOnce())
	require.ElementsMatch(t, []string{"E1", "E3"}, s.wire())
}
