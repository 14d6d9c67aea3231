package integration_test

import (
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/pipeline"
)

// Names that end up in one place where topics become tables, or names are cut at 63 bytes.
func TestTopicsWithSimilarNamesDoNotMix(t *testing.T) {
	s := newSystem(t, 1)
	long := strings.Repeat("x", 60-len(s.suffix)) + s.suffix
	topics := []string{
		s.suffix + "orders", "offsets_" + s.suffix + "orders", s.suffix + "Orders",
		s.suffix + "a.b", s.suffix + "a-b", long + ".first", long + ".second",
	}
	p := s.pipeline(pipeline.Config{})
	for _, topic := range topics {
		s.createTopic(topic, 1)
		require.NoError(t, p.Handle(topic, topic, func(msg *message.Message) error { return effect(msg.Context(), topic, msg) }))
	}
	s.start(p)
	for _, topic := range topics {
		s.publish(topic, event.New("e", nil, event.WithID("to "+topic)))
	}
	s.awaitSent()
	for _, topic := range topics {
		s.awaitEffects(topic, "to "+topic)
		s.topic = topic
		require.Equal(t, []string{"to " + topic}, s.wire())
	}
}

// Kafka itself does not let a.b and a_b exist beside each other. The outbox keeps them apart: what belongs to the one that
// does not exist waits, and the other goes on.
func TestMissingTopicHoldsUpNoOther(t *testing.T) {
	s := newSystem(t, 1)
	there, missing := s.suffix+"a.b", s.suffix+"a_b"
	s.createTopic(there, 1)
	p := s.pipeline(pipeline.Config{})
	s.start(p)
	s.publish(missing, event.New("e", nil, event.WithID("missing"), event.PartitionKey("k")))
	s.publish(there, event.New("e", nil, event.WithID("there"), event.PartitionKey("k")))
	s.await(func() bool { return s.pending() == 1 })
	require.Equal(t, []string{"missing"}, s.column("select event_id from millrace.outbox_status where state <> 'sent'"))
	s.topic = there
	require.Equal(t, []string{"there"}, s.wire())
}
