package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
)

// The broker freezes in the middle of a batch of a hundred, for longer than the publisher waits. Receipts exist only for
// what it acknowledged, and after the thaw all hundred are there.
func TestFrozenBrokerLosesNothing(t *testing.T) {
	for _, at := range []int{0, 5, 9} { // of ten requests
		t.Run(fmt.Sprint("at request ", at), func(t *testing.T) {
			s := newSystem(t, 1)
			broker := newProxy(t, s.brokers, func(key kmsg.Key, n int) verdict {
				if key == kmsg.Produce && n == at {
					return hold
				}
				return pass
			})
			publisher := s.producer(kafka.PublisherConfig{
				Connection: kafka.Connection{Brokers: broker.brokers()}, ChunkSize: 10, DeliveryTimeout: time.Second,
			})
			messages, ids := orderEvents(100)
			s.publish(s.topic, messages...)
			f := s.relay(publisher, quick())
			s.await(broker.isFrozen)
			s.await(func() bool { return f.Stats().Failed > 0 })
			s.requireTrueReceipts()
			require.LessOrEqual(t, 100-s.pending(), 10*at)

			broker.thaw()
			s.awaitSent()
			s.requireTrueReceipts()
			require.Subset(t, s.wire(), ids)
		})
	}
}

// requireTrueReceipts compares each receipt with what really is at its place on the topic.
func (s *system) requireTrueReceipts() {
	s.t.Helper()
	receipts := s.column(`select format('%s/%s/%s', kafka_partition, kafka_offset, event_id)
		from millrace.outbox_receipt join millrace.outbox using (shard, position)`)
	places := []string{}
	for _, record := range testkit.ReadTopic(s.t, s.topic) {
		places = append(places, fmt.Sprintf("%d/%d/%s", record.Partition, record.Offset, header(record, event.IDKey)))
	}
	require.Subset(s.t, places, receipts)
}

// A broker that takes everything and answers nothing: while the relay waits, it holds neither a transaction nor a lock.
// Afterwards everything is delivered, without a restart.
func TestSilentBrokerHoldsNoTransaction(t *testing.T) {
	s := newSystem(t, 1)
	broker := newProxy(t, s.brokers, nil)
	publisher := s.producer(kafka.PublisherConfig{
		Connection: kafka.Connection{Brokers: broker.brokers()}, DeliveryTimeout: 5 * time.Second,
	})
	f := s.relay(publisher, outbox.SubscriberConfig{Lease: 3 * time.Second, PollInterval: 20 * time.Millisecond})
	s.publish(s.topic, orderEvent("before", 1))
	s.awaitSent()

	broker.freeze()
	before := broker.requests(kmsg.Produce)
	s.publish(s.topic, orderEvent("7", 1), orderEvent("8", 1))
	s.await(func() bool { return broker.requests(kmsg.Produce) > before })
	s.await(func() bool {
		require.Zero(t, s.count(`select count(*) from pg_stat_activity where datname = current_database()
			and pid <> pg_backend_pid() and state <> 'idle' and clock_timestamp() - xact_start > interval '2 seconds'`))
		_, err := s.db.Exec("select 1 from millrace.outbox for update nowait")
		require.NoError(t, err)
		return f.Stats().Failed > 0 // the publisher has given up waiting
	})
	require.Equal(t, 2, s.pending())
	require.Zero(t, f.Stats().Fenced)

	broker.thaw()
	broker.cut() // the answers are lost
	s.awaitSent()
	require.Subset(t, s.wire(), []string{"before-v1", "7-v1", "8-v1"})
}
