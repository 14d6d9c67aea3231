package forwarder_test

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
)

// recorder is a publisher that keeps what it is given, or refuses it.
type recorder struct {
	mu     sync.Mutex
	got    []*message.Message
	topics []string
	refuse func(topic string, msg *message.Message) error
}

func (r *recorder) Publish(topic string, msgs ...*message.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, msg := range msgs {
		if r.refuse != nil {
			if err := r.refuse(topic, msg); err != nil {
				return err
			}
		}
		r.got = append(r.got, msg)
		r.topics = append(r.topics, topic)
	}
	return nil
}

func (r *recorder) Close() error { return nil }

func (r *recorder) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]string, len(r.got))
	for n, msg := range r.got {
		ids[n] = msg.Metadata[event.IDKey]
	}
	return ids
}

// publish writes events as any writer may, in one transaction.
func publish(t *testing.T, db *sql.DB, topic string, msgs ...*message.Message) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	for _, msg := range msgs {
		e, err := event.Parse(msg)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), `insert into millrace.outbox
			(event_id, topic, aggregate_type, aggregate_id, aggregate_version, event_type, partition_key, payload)
			values ($1, $2, $3, $4, $5, $6, $7, $8)`,
			e.ID, topic, e.AggregateType, e.AggregateID, e.AggregateVersion, e.Type, e.PartitionKey, []byte(msg.Payload))
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
}

func orderEvent(order, version int) *message.Message {
	return event.New("order.changed", fmt.Appendf(nil, `{"version":%d}`, version),
		event.WithID(fmt.Sprintf("order-%d-%d", order, version)), event.Aggregate("order", fmt.Sprint(order), int64(version)))
}

func pending(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), `select count(*) from millrace.outbox_status where state <> 'sent'`).Scan(&n))
	return n
}

func newForwarder(t *testing.T, db *sql.DB, publisher message.Publisher, config forwarder.Config) *forwarder.Forwarder {
	t.Helper()
	f, err := forwarder.NewForwarder(db, publisher, config, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func TestRefusedRoundLeavesEventsPending(t *testing.T) {
	db := testkit.Migrated(t)
	publish(t, db, "orders", orderEvent(1, 1))
	broker := &recorder{refuse: func(string, *message.Message) error { return errors.New("broker says no") }}
	f := newForwarder(t, db, broker, forwarder.Config{})

	sent, err := f.RunOnce(t.Context(), 10)
	require.ErrorContains(t, err, "broker says no")
	require.Zero(t, sent)
	require.Equal(t, 1, pending(t, db))

	broker.refuse = nil
	sent, err = f.RunOnce(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, sent)
	require.Equal(t, []string{"order-1-1"}, broker.ids())
	require.Zero(t, pending(t, db))

	sent, err = f.RunOnce(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, sent)
}

func TestRunOnceStopsAtItsLimit(t *testing.T) {
	db := testkit.Migrated(t)
	for n := range 25 {
		publish(t, db, "orders", orderEvent(n, 1))
	}
	broker := &recorder{}
	f := newForwarder(t, db, broker, forwarder.Config{})
	for _, want := range []int{10, 10, 5, 0} {
		sent, err := f.RunOnce(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, want, sent)
	}
	require.Len(t, broker.ids(), 25)
}
