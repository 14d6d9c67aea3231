package integration_test

import (
	"context"
	"database/sql"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/middleware"
	"github.com/millrace-go/millrace/pipeline"
)

// Records that cannot be decoded, in the body or in the identity, lie before good ones: they are kept as they came, what is
// behind them is handled, and the member stays in its group.
func TestUndecodableRecordBlocksNothing(t *testing.T) {
	s := newSystem(t, 1)
	consumer := s.name("projection")
	broker := newProxy(t, s.brokers, nil)
	p := s.pipeline(pipeline.Config{Brokers: broker.brokers()})
	type order struct {
		Version int `json:"version"`
	}
	require.NoError(t, p.Handle(consumer, s.topic, handlers.JSON(func(ctx context.Context, tx *sql.Tx, e order) error {
		_, err := tx.ExecContext(ctx, "insert into effect (consumer, event_id) values ($1, $2)", consumer, e.Version)
		return err
	})))
	s.start(p)

	garbage := []byte{0xff, 0x00, '{', 0xfe, '\n'}
	key := []byte{'k', 0x00, 0xff}
	s.produce(
		&kgo.Record{Topic: s.topic, Key: key, Value: garbage, Headers: []kgo.RecordHeader{
			{Key: "text", Value: []byte("grün")}, {Key: "bytes", Value: []byte{0xff, 0xfe, 0x00}},
		}},
		&kgo.Record{Topic: s.topic, Key: key, Value: garbage, Headers: []kgo.RecordHeader{{Key: event.IDKey, Value: []byte{0xff, 0xfe}}}},
		&kgo.Record{Topic: s.topic, Key: key, Value: []byte(`{"version":1}`)},
		&kgo.Record{Topic: s.topic, Value: []byte(`{"version":2}`)},
	)
	s.awaitCommitted(consumer, s.topic)
	require.ElementsMatch(t, []string{"1", "2"}, s.effects(consumer))

	dead := s.dead(consumer)
	require.Len(t, dead, 2)
	offsets := []int64{}
	for _, d := range dead {
		require.Equal(t, inbox.ClassPermanent, d.ErrorClass)
		require.Equal(t, garbage, d.Payload)
		require.Equal(t, key, d.Key)
		require.Equal(t, s.topic, d.Topic)
		require.Zero(t, *d.Partition)
		offsets = append(offsets, *d.Offset)
		if *d.Offset == 0 {
			require.Equal(t, "grün", d.Headers["text"])
			require.Equal(t, "\xff\xfe\x00", d.Headers["bytes"])
		}
	}
	require.ElementsMatch(t, []int64{0, 1}, offsets)

	s.createTopic(s.topic+".dlq", 1)
	s.awaitSent()
	for _, record := range testkit.ReadTopic(t, s.topic+".dlq") {
		require.Equal(t, garbage, record.Value)
		// The key is no text, which is all the outbox has as a key.
		require.Equal(t, base64.StdEncoding.EncodeToString(key), header(record, middleware.KeyPoisonedKey))
	}
	require.LessOrEqual(t, broker.requests(kmsg.JoinGroup), 2, "it joined its group once: with a member id on the second request")
}
