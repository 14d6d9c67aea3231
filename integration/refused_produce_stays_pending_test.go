package integration_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-go/millrace/kafka"
)

// The broker takes the connection, says who it is, and refuses to write: nothing may be marked as sent.
func TestRefusedProduceStaysPending(t *testing.T) {
	s := newSystem(t, 1)
	broker := newProxy(t, s.brokers, func(key kmsg.Key, n int) verdict {
		if key == kmsg.Produce && n == 0 {
			return refuse
		}
		return pass
	})
	publisher := s.producer(kafka.PublisherConfig{Connection: kafka.Connection{Brokers: broker.brokers()}})
	f := s.forwarder(publisher, quick())
	s.publish(s.topic, orderEvent("7", 1))

	sent, err := f.RunOnce(context.Background(), 10)
	require.ErrorIs(t, err, kerr.UnknownServerError)
	require.Zero(t, sent)
	require.Equal(t, 1, s.pending())
	require.Empty(t, s.wire())

	sent, err = f.RunOnce(context.Background(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, sent)
	require.Zero(t, s.pending())
	require.Equal(t, []string{"7-v1"}, s.wire(), "the same event_id")
}
