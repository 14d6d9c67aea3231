package integration_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/pipeline"
)

// A handler returns an event; its input arrives twice, and its first attempt fails after it has made the event.
func TestReturnedEventsArePublishedOnce(t *testing.T) {
	s := newSystem(t, 1)
	billing, audit := s.name("billing"), s.name("audit")
	bills := s.topic + ".bills"
	s.createTopic(bills, 1)
	var attempts counter
	p := s.pipeline(pipeline.Config{})
	require.NoError(t, p.HandleWithEvents(billing, s.topic, bills, func(msg *message.Message) ([]*message.Message, error) {
		if err := effect(msg.Context(), billing, msg); err != nil {
			return nil, err
		}
		bill := event.New("bill.written", msg.Payload, event.PartitionKey("bill"))
		delete(bill.Metadata, event.IDKey) // derived
		if attempts.add(msg.UUID) == 1 {
			return []*message.Message{bill}, errFailed
		}
		return []*message.Message{bill}, nil
	}))
	require.NoError(t, p.Handle(audit, bills, apply(audit)))
	s.start(p)
	messages, ids := orderEvents(10)
	for _, msg := range messages {
		msg.Metadata[event.CorrelationIDKey] = "correlation of " + msg.UUID
		s.produce(copyOf(msg, s.topic, 0), copyOf(msg, s.topic, 0))
	}
	s.awaitCommitted(billing, s.topic)
	s.awaitEffects(billing, ids...)
	produced := s.column("select event_id from millrace.outbox where topic = $1", bills)
	require.Len(t, produced, len(ids))
	s.awaitEffects(audit, produced...)
	causes := []string{}
	for _, record := range testkit.ReadTopic(t, bills) {
		causes = append(causes, header(record, event.CausationIDKey))
		require.Equal(t, "correlation of "+header(record, event.CausationIDKey), header(record, event.CorrelationIDKey))
	}
	require.ElementsMatch(t, ids, causes, "one bill per order")
}
