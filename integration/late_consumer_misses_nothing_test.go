package integration_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
)

func TestConsumerBornAfterTheEventsMissesNone(t *testing.T) {
	s := newSystem(t, 3)
	consumer := s.name("projection")
	messages, ids := orderEvents(100)
	s.publish(s.topic, messages...)
	require.Equal(t, 100, s.relayOnce())
	s.consume(consumer, s.topic, apply(consumer))
	s.awaitEffects(consumer, ids...)
}

// The group has committed offsets on the old partition; the new one has records before any member knows of it.
func TestPartitionAddedLaterIsReadFromItsStart(t *testing.T) {
	s := newSystem(t, 1)
	consumer := s.name("projection")
	before, added, after := orderEvent("before", 1), orderEvent("added", 1), orderEvent("after", 1)
	s.produce(copyOf(before, s.topic, 0))
	stop := s.consume(consumer, s.topic, apply(consumer))
	s.awaitEffects(consumer, before.UUID)
	s.awaitCommitted(consumer, s.topic)
	stop()

	s.administer(func(ctx context.Context, admin *kadm.Client) error {
		responses, err := admin.UpdatePartitions(ctx, 2, s.topic)
		if err != nil {
			return err
		}
		return responses.Error()
	})
	s.await(func() bool { return s.tryProduce(copyOf(added, s.topic, 1)) == nil }) // until every broker knows it
	s.consume(consumer, s.topic, apply(consumer))
	s.produce(copyOf(after, s.topic, 1))
	s.awaitEffects(consumer, before.UUID, added.UUID, after.UUID)
}
