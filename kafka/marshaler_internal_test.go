package kafka

import (
	"cmp"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/millrace-go/millrace/event"
)

// The short way makes the same record as watermill-kafka's marshaler.
func TestTheShortWayMakesTheSameRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msg := message.NewMessage(rapid.String().Draw(t, "uuid"), rapid.SampledFrom([]message.Payload{nil, {}, []byte("payload")}).Draw(t, "payload"))
		msg.Metadata = rapid.MapOf(rapid.SampledFrom([]string{event.IDKey, event.AggregateIDKey, event.PartitionKeyKey, "ключ", "", "x"}), rapid.String()).Draw(t, "metadata")
		short, err := marshal(Marshaler{}, "topic", msg)
		require.NoError(t, err)
		marshaled, err := Marshaler{}.Marshal("topic", msg)
		require.NoError(t, err)
		long, err := producerRecord(marshaled)
		require.NoError(t, err)
		for _, r := range []*kgo.Record{short, long} { // a map has no order
			slices.SortFunc(r.Headers, func(a, b kgo.RecordHeader) int { return cmp.Compare(a.Key, b.Key) })
		}
		require.Equal(t, long, short)
	})
}
