package integration_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
)

// A relay is killed when the broker has the event and the database does not know: the next relay sends it again, under the
// same identity, and it takes effect once.
func TestKilledRelayRepeatsNoEffect(t *testing.T) {
	s := newSystem(t, 1)
	consumer := s.name("projection")
	s.publish(s.topic, orderEvent("7", 1))

	s.startRelayProcess(time.Second, syscall.SIGKILL).await(s, syscall.SIGKILL)
	require.Equal(t, []string{"7-v1"}, s.wire())
	require.Equal(t, 1, s.pending())

	f := s.relay(s.producer(kafka.PublisherConfig{}), quick())
	s.awaitSent()
	require.Equal(t, []string{"7-v1", "7-v1"}, s.wire(), "the same event twice")
	require.NotZero(t, f.Stats().Takeovers)

	s.consume(consumer, s.topic, apply(consumer))
	s.awaitCommitted(consumer, s.topic)
	s.awaitEffects(consumer, "7-v1")

	// Everything there is to know is found under the one event_id.
	outcome, err := outbox.Lookup(context.Background(), s.db, "7-v1")
	require.NoError(t, err)
	require.True(t, outcome.Committed)
	require.Equal(t, 1, s.count("select count(*) from millrace.outbox_status where event_id = '7-v1' and state = 'sent' and kafka_offset = 1"))
	row, err := s.inbox.Show(context.Background(), consumer, "7-v1")
	require.NoError(t, err)
	require.Equal(t, "done", row.State)
	require.Equal(t, s.topic, row.Topic)
}
