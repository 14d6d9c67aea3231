package integration_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/kafka"
)

// The broker is killed and stays away while writers go on: writing succeeds, nothing is parked or held, no attempt counted, and
// afterwards everything is there in order, behind an event that was refused in the batch the broker died in, too.
func TestDeadBrokerParksNothing(t *testing.T) {
	s := newSystem(t, 3)
	broker := testkit.StartKafka(t)
	s.brokers = broker.Brokers()
	s.topic = testkit.TopicOn(t, s.brokers, 3)
	s.limitTopic("20000") // more than a chunk of ten, less than the large event
	config := quick()
	config.MinHold, config.MaxHold, config.MaxAttempts, config.BatchSize = 200*time.Millisecond, 500*time.Millisecond, 1000, 50
	s.relay(s.producer(kafka.PublisherConfig{DeliveryTimeout: 2 * time.Second, ChunkSize: 10}), config)

	const writers, keys = 4, 5
	stop := make(chan struct{})
	var writing sync.WaitGroup
	written := make([]int, writers)
	for w := range writers {
		writing.Go(func() {
			for version := 1; ; version++ {
				for key := range keys {
					s.publish(s.topic, orderEvent(fmt.Sprintf("%d-%d", w, key), version))
					written[w]++
				}
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
	total := func() int { return s.count(`select count(*) from millrace.outbox`) }
	s.await(func() bool { return s.count(`select count(*) from millrace.outbox_receipt`) > 200 })
	large := event.New("order.changed", []byte(`"`+strings.Repeat("x", 25_000)+`"`), event.Aggregate("order", "large", 1), event.WithID("large-v1"))
	s.publish(s.topic, large, orderEvent("large", 2), orderEvent("large", 3))
	testkit.Kill(t, broker.PID())

	before := total()
	s.await(func() bool { return total() > before+500 }) // writers do not notice
	away := time.NewTimer(6 * time.Second)               // three delivery timeouts
	<-away.C
	require.Zero(t, s.count(`select count(*) from millrace.outbox_parked where partition_key <> 'large'`))
	require.Zero(t, s.count(`select count(*) from millrace.outbox_lane`))
	restarted := testkit.RestartKafka(t, broker)
	require.Equal(t, s.brokers, restarted.Brokers())
	close(stop)
	writing.Wait()
	s.await(func() bool { return s.pending() == 3 })
	require.Equal(t, []string{"large-v1", "large-v2", "large-v3"}, s.column(`select event_id from millrace.outbox_parked order by entry`))
	s.limitTopic("1048588")
	s.awaitSent()

	last := map[string]int{}
	for _, record := range testkit.ReadTopicOn(t, s.brokers, s.topic) {
		id := header(record, event.IDKey)
		order, number, ok := strings.Cut(id, "-v")
		require.True(t, ok, id)
		version, err := strconv.Atoi(number)
		require.NoError(t, err)
		require.LessOrEqual(t, version, last[order]+1, "%s: its predecessor is not there yet", id)
		last[order] = max(last[order], version)
	}
	sum := 0
	for _, n := range written {
		sum += n
	}
	require.Equal(t, sum+3, total())
	arrived := 0
	for _, version := range last {
		arrived += version
	}
	require.Equal(t, sum+3, arrived)
	require.Equal(t, 1, s.count(`select max(attempts) from millrace.outbox_receipt join millrace.outbox using (shard, position) where event_id = 'large-v2'`))
}
