package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

func quickConfig() outbox.SubscriberConfig {
	return outbox.SubscriberConfig{PollInterval: 20 * time.Millisecond, MinBackoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond}
}

// subscribe starts a relay until the test ends.
func subscribe(t *testing.T, s *outbox.Subscriber, err error) <-chan *message.Message {
	t.Helper()
	require.NoError(t, err)
	messages, err := s.Subscribe(context.Background(), "outbox")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return messages
}

func receive(t *testing.T, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, open := <-messages:
		require.True(t, open)
		return msg
	case <-time.After(30 * time.Second):
		require.Fail(t, "nothing is emitted")
		return nil
	}
}

func insertOrders(t *testing.T, db *sql.DB, key string, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		insertOrder(t, db, key, n)
	}
}

func insertOrder(t *testing.T, db *sql.DB, key string, n int) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), `insert into millrace.outbox (event_id, topic, partition_key, payload) values ($1, 'orders', $2, 'x')`,
		fmt.Sprintf("%s-%d", key, n), key)
	require.NoError(t, err)
}

func unsettled(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(context.Background(), `select count(*) from millrace.outbox_status where state <> 'sent'`).Scan(&n))
	return n
}

// recording is a plain publisher.
type recording struct {
	mu  sync.Mutex
	got []*message.Message
}

func (r *recording) Publish(_ string, msgs ...*message.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, msgs...)
	return nil
}

func (r *recording) Close() error { return nil }

func (r *recording) ids() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, msg := range r.got {
		ids = append(ids, msg.UUID)
	}
	return ids
}

func TestAnAcknowledgedCarrierWithoutReportsSettlesNothing(t *testing.T) {
	db := testkit.Migrated(t)
	insertOrders(t, db, "a", 1, 3)
	s, err := outbox.NewBatchSubscriber(db, quickConfig(), nil)
	carriers := subscribe(t, s, err)
	for range 3 {
		carrier := receive(t, carriers)
		b, err := s.Resolve(carrier)
		require.NoError(t, err)
		require.Equal(t, 3, b.Len())
		carrier.Ack()
	}
	require.Equal(t, 3, unsettled(t, db))
	carrier := receive(t, carriers)
	b, err := s.Resolve(carrier)
	require.NoError(t, err)
	b.Report(0, event.Receipt{}, nil) // the first of three, and then the carrier is lost
	carrier.Nack()

	carrier = receive(t, carriers)
	b, err = s.Resolve(carrier)
	require.NoError(t, err)
	require.Equal(t, 2, b.Len())
	b.Report(0, event.Receipt{}, nil)
	b.Report(1, event.Receipt{}, nil)
	b.Report(1, event.Receipt{}, errors.New("only the first report counts"))
	carrier.Ack()
	require.Eventually(t, func() bool { return unsettled(t, db) == 0 }, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return s.Stats().Sent == 3 }, 10*time.Second, time.Millisecond, "counted once the receipts are known to be written")
}

func TestACarrierThatNamesNoLiveBatchIsRefused(t *testing.T) {
	db := testkit.Migrated(t)
	insertOrders(t, db, "a", 1, 1)
	s, err := outbox.NewBatchSubscriber(db, quickConfig(), nil)
	carriers := subscribe(t, s, err)
	carrier := receive(t, carriers)
	_, err = s.Resolve(message.NewMessage("stranger", nil))
	require.ErrorIs(t, err, outbox.ErrUnknownBatch)
	b, err := s.Resolve(carrier.Copy())
	require.NoError(t, err, "a copy has lost its context, not its reference")
	msg, err := b.Message(0)
	require.NoError(t, err)
	require.Equal(t, "a-1", msg.UUID)
	carrier.Nack()

	again := receive(t, carriers)
	_, err = s.Resolve(carrier)
	require.ErrorIs(t, err, outbox.ErrUnknownBatch, "it has ended")
	b.Report(0, event.Receipt{}, nil)
	again.Ack()
	receive(t, carriers).Nack()
	require.Equal(t, 1, unsettled(t, db), "a report on a batch that has ended counts for nothing")
}

// The stock component with a plain publisher cannot make sense of carriers. It must not settle what they stand for.
func TestStockForwarderOverTheBatchSubscriberSettlesNothing(t *testing.T) {
	db := testkit.Migrated(t)
	insertOrders(t, db, "a", 1, 3)
	s, err := outbox.NewBatchSubscriber(db, quickConfig(), nil)
	require.NoError(t, err)
	wire := &recording{}
	runStock(t, s, wire)
	require.Eventually(t, func() bool { return len(wire.ids()) > 2 }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, 3, unsettled(t, db))
}

func runStock(t *testing.T, s *outbox.Subscriber, publisher message.Publisher) {
	t.Helper()
	f, err := forwarder.NewForwarder(s, publisher, nopLogger, forwarder.Config{})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(context.Background()) }()
	<-f.Running()
	t.Cleanup(func() {
		require.NoError(t, f.Close())
		require.NoError(t, <-ended)
		require.NoError(t, s.Close())
	})
}

func TestStockForwarderWithAPlainPublisherSettlesByAck(t *testing.T) {
	db := testkit.Migrated(t)
	insertOrders(t, db, "a", 1, 20)
	insertOrders(t, db, "b", 1, 20)
	s, err := outbox.NewSubscriber(db, quickConfig(), nil)
	require.NoError(t, err)
	wire := &recording{}
	runStock(t, s, wire)
	require.Eventually(t, func() bool { return unsettled(t, db) == 0 }, 30*time.Second, 10*time.Millisecond)
	last := map[string]int{}
	for _, msg := range wire.got {
		key := msg.Metadata[event.PartitionKeyKey]
		last[key]++
		require.Equal(t, fmt.Sprintf("%s-%d", key, last[key]), msg.Metadata[event.IDKey])
		require.Equal(t, "x", string(msg.Payload))
	}
	require.Equal(t, map[string]int{"a": 20, "b": 20}, last)
	var places int
	require.NoError(t, db.QueryRowContext(t.Context(), `select count(kafka_offset) + count(kafka_partition) from millrace.outbox_receipt`).Scan(&places))
	require.Zero(t, places, "an ack does not tell where")
}

// The router nacks once and forgets: the event comes again, and nothing of its shard passes it.
func TestANackedEnvelopeComesAgainBeforeWhatIsBehindIt(t *testing.T) {
	db := testkit.Migrated(t)
	insertOrders(t, db, "a", 1, 3)
	config := quickConfig()
	config.BatchSize = 1 // the next event is in the next batch
	s, err := outbox.NewSubscriber(db, config, nil)
	envelopes := subscribe(t, s, err)
	for n := 1; n <= 3; n++ {
		want := fmt.Sprintf("a-%d", n)
		for range 3 {
			msg := receive(t, envelopes)
			require.Contains(t, string(msg.Payload), want)
			msg.Nack()
		}
		msg := receive(t, envelopes)
		require.Contains(t, string(msg.Payload), want)
		select {
		case <-envelopes:
			require.Fail(t, "the next event is emitted before this one is acknowledged")
		case <-time.After(50 * time.Millisecond):
		}
		msg.Ack()
	}
	require.Eventually(t, func() bool { return unsettled(t, db) == 0 }, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return s.Stats().Sent == 3 }, 10*time.Second, time.Millisecond, "counted once the receipts are known to be written")
}

func TestErrorsOfALimitedRunAreReturned(t *testing.T) {
	db := testkit.Migrated(t)
	insertOrders(t, db, "a", 1, 2)
	failure := errors.New("no broker today")
	for name, newSubscriber := range map[string]func() (*outbox.Subscriber, error){
		"envelopes": func() (*outbox.Subscriber, error) { return outbox.NewSubscriber(db, quickConfig(), nil) },
		"batches":   func() (*outbox.Subscriber, error) { return outbox.NewBatchSubscriber(db, quickConfig(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := newSubscriber()
			require.NoError(t, err)
			tries := map[string]int{}
			sent, err := s.RunOnce(t.Context(), 10, func(msg *message.Message) error { tries[string(msg.Payload)]++; return failure })
			require.ErrorIs(t, err, failure)
			require.Zero(t, sent)
			require.Len(t, tries, 1)
			for _, n := range tries {
				require.Equal(t, 1, n, "each is tried once")
			}
			_, err = s.RunOnce(t.Context(), 0, nil)
			require.ErrorContains(t, err, "limit 0 is not positive")
			require.NoError(t, s.Close())
			_, err = s.Subscribe(t.Context(), "outbox")
			require.ErrorIs(t, err, outbox.ErrClosed)
		})
	}
}

func TestBadSubscriberConfigIsNamedFieldByField(t *testing.T) {
	_, err := outbox.NewSubscriber(nil, outbox.SubscriberConfig{Schema: "Bad", Lease: 1, PollInterval: -1, BatchSize: -1, MaxInFlight: -1, MaxUnsettled: -1,
		MaxUnsettledBytes: -1, MinBackoff: -1, MinHold: -1, SweepInterval: -1, CloseTimeout: -1}, nil)
	for _, field := range []string{"Schema", "Lease", "PollInterval", "BatchSize", "MaxInFlight", "MaxUnsettled -1", "MaxUnsettledBytes",
		"MinBackoff", "MinHold", "SweepInterval", "CloseTimeout"} {
		require.ErrorContains(t, err, field)
	}
	_, err = outbox.NewSubscriber(nil, outbox.SubscriberConfig{}, nil)
	require.ErrorContains(t, err, "db is nil")
}
