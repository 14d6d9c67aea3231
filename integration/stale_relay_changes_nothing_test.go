package integration_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/kafka"
)

// A relay is frozen between the broker's acknowledgement and the receipts, for longer than its lease. Another takes over.
// What the first does when it wakes up changes no row.
func TestStaleRelayChangesNothing(t *testing.T) {
	s := newSystem(t, 1)
	messages, ids := orderEvents(50)
	s.publish(s.topic, messages...)

	stale := s.startRelayProcess(time.Second, syscall.SIGSTOP)
	stale.await(s, syscall.SIGSTOP)
	require.Equal(t, len(ids), s.pending())

	f := s.relay(s.producer(kafka.PublisherConfig{}), quick())
	s.awaitSent()
	require.NotZero(t, f.Stats().Takeovers)
	state := func() []string {
		return append(s.column("select r::text from millrace.outbox_receipt r order by shard, position"),
			s.column("select concat_ws(' ', shard, relay_id, claim_id, claim_version) from millrace.outbox_shard order by shard")...)
	}
	before := state()

	stale.signal(s, syscall.SIGCONT)
	select {
	case <-stale.fenced: // it tried, and was refused
	case <-time.After(patience):
		require.FailNow(t, "the stale relay never settled")
	}
	require.Subset(t, state(), before[:len(ids)], "every receipt is the successor's")
	require.Len(t, s.column("select event_id from millrace.outbox_receipt join millrace.outbox using (shard, position)"), len(ids))
	require.Zero(t, f.Stats().Fenced, "the new owner was not disturbed")

	copies := map[string]int{}
	for _, id := range s.wire() {
		copies[id]++
	}
	require.Len(t, copies, len(ids), "nothing lost")
	for id, n := range copies {
		require.LessOrEqual(t, n, 2, fmt.Sprint(id))
	}
}
