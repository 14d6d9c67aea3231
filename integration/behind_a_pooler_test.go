package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
	"github.com/millrace-go/millrace/pipeline"
)

// oneRoundTrip has a driver send statement and parameters together, as it must behind every pooler in transaction mode.
var oneRoundTrip = map[string]string{"postgres": "binary_parameters=yes", "pgx": "default_query_exec_mode=exec"}

// pool has the system reach its database through three server processes, which are taken in turns, transaction by
// transaction.
func (s *system) pool(driver string) {
	s.t.Helper()
	s.db = testkit.Open(s.t, driver, testkit.PgBouncer(s.t, s.dsn)+"&"+oneRoundTrip[driver])
	s.db.SetMaxOpenConns(40)
	var err error
	s.inbox, err = inbox.NewStore(s.db, inbox.Config{})
	require.NoError(s.t, err)
}

// Writers, relay and consumer are all behind the pooler. Only the relay's ear is not.
func TestBehindAPoolerInTransactionModeNothingIsLostOrPrepared(t *testing.T) {
	for driver := range oneRoundTrip {
		t.Run(driver, func(t *testing.T) {
			s := newSystem(t, 3)
			s.pool(driver)
			relay := quick()
			relay.DirectURL = s.dsn
			consumer := s.name("projection")
			var attempts counter
			p := s.pipeline(pipeline.Config{Retry: noRetries, Forwarder: forwarder.Config{Outbox: relay}})
			require.NoError(t, p.Handle(consumer, s.topic, func(msg *message.Message) error {
				if err := effect(msg.Context(), consumer, msg); err != nil {
					return err
				}
				if attempts.add(msg.UUID) == 1 && strings.HasPrefix(msg.UUID, "poison") {
					return errFailed
				}
				return nil
			}))
			s.start(p)

			ids := s.publishAtOnce(4, 25)
			s.awaitSent()
			poison := orderEvent("poison", 1)
			s.publish(s.topic, poison)
			s.awaitInbox(consumer, "dead", 1)
			s.awaitEffects(consumer, ids...)
			s.produce(copyOf(poison, s.topic, 0), copyOf(orderEvent("writer-0-0", 1), s.topic, 1)) // duplicates
			s.awaitCommitted(consumer, s.topic)
			s.replay(consumer, poison.UUID)
			s.awaitEffects(consumer, append(ids, poison.UUID)...)

			require.Subset(t, s.wire(), append(ids, poison.UUID))
			require.NotContains(t, strings.Join(s.wire(), " "), "undone")
			require.Empty(t, s.logs.matching(func(line string) bool { return strings.Contains(line, "prepared statement") }))
		})
	}
}

// The relay all but never polls; its pauses double up to that. When it has not looked for so long, its next look is further
// away than the event may be.
func TestARelayBehindAPoolerIsWokenOverTheServersOwnAddress(t *testing.T) {
	s := newSystem(t, 1)
	s.pool("postgres")
	config := quick()
	config.PollInterval, config.DirectURL = time.Hour, s.dsn
	s.relay(s.producer(kafka.PublisherConfig{}), config)
	s.awaitIdleRelay(6 * time.Second)
	began := time.Now()
	require.NoError(t, s.publishUntil("1", nil))
	s.awaitSent()
	require.Less(t, time.Since(began), 3*time.Second)
	require.Empty(t, s.logs.matching(func(line string) bool { return strings.Contains(line, "wake-ups is lost") }))
}

// publishAtOnce has writers commit events in transactions of their own, beside others that they roll back.
func (s *system) publishAtOnce(writers, each int) (ids []string) {
	s.t.Helper()
	failures := make([]error, writers)
	var all sync.WaitGroup
	for writer := range writers {
		for n := range each {
			ids = append(ids, orderEvent(fmt.Sprintf("writer-%d-%d", writer, n), 1).UUID)
		}
		all.Go(func() {
			for n := range each {
				failures[writer] = s.publishUntil(fmt.Sprintf("undone-%d-%d", writer, n), errFailed)
				if failures[writer] != errFailed { //nolint:errorlint // it comes back as it is
					return
				}
				if failures[writer] = s.publishUntil(fmt.Sprintf("writer-%d-%d", writer, n), nil); failures[writer] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	for _, err := range failures {
		require.NoError(s.t, err)
	}
	return ids
}

// publishUntil publishes an event of the order in a transaction that ends as it is told to.
func (s *system) publishUntil(order string, end error) error {
	return outbox.InTx(context.Background(), s.db, func(ctx context.Context, tx *sql.Tx) error {
		msg := orderEvent(order, 1)
		event.InTx(ctx, msg, tx)
		if err := s.outbox.Publish(s.topic, msg); err != nil {
			return err
		}
		return end
	})
}

// awaitIdleRelay waits until no relay has looked for events for so long. Each look reads outbox_control.
func (s *system) awaitIdleRelay(pause time.Duration) {
	s.t.Helper()
	looks, since := -1, time.Now()
	s.await(func() bool {
		now := s.count("select coalesce(seq_scan, 0) + coalesce(idx_scan, 0) from pg_stat_user_tables where schemaname = 'millrace' and relname = 'outbox_control'")
		if now != looks {
			looks, since = now, time.Now()
		}
		return time.Since(since) > pause
	})
}
