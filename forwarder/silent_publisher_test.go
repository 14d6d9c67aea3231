package forwarder_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// A broker that does not answer must not hold up the database: no transaction stays open, no row locked.
func TestASilentPublisherHoldsNoTransactionAndNoLock(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		publish(t, db, "orders", orderEvent(1, 1), orderEvent(2, 1))
		reached, answer := make(chan struct{}), make(chan struct{})
		first := true
		wire.refuse = func(string, *message.Message) error {
			if first {
				first = false
				close(reached)
				<-answer
			}
			return nil
		}
		run(t, db, publisher, quick())
		<-reached
		began := time.Now()
		require.Never(t, func() bool {
			return scan[int](t, db, `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
				and (state like 'idle in transaction%' or xact_start < clock_timestamp() - interval '500 ms')`) > 0
		}, time.Second, 20*time.Millisecond)
		require.Greater(t, time.Since(began), 500*time.Millisecond)
		_, err := db.ExecContext(t.Context(), `begin; select from millrace.outbox for update nowait; select from millrace.outbox_receipt for update nowait; rollback`)
		require.NoError(t, err)
		require.Equal(t, 2, pending(t, db))
		close(answer)
		settled(t, db)
	})
}
