package outbox_test

import (
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

// published draws an event with any mixture of set, unset, empty and oddly spelt metadata that Publish accepts.
func published(t *rapid.T) *message.Message {
	text := rapid.Map(rapid.String(), func(s string) string { return strings.ReplaceAll(s, "\x00", "") })
	maybe := rapid.Bool()
	id := rapid.StringMatching(`[a-zé-]{1,40}`)
	number := rapid.SampledFrom([]string{"1", "2", "007", "+5", "2147483647"})
	msg := message.NewMessage(id.Draw(t, "uuid"), rapid.SampledFrom([]message.Payload{nil, {}, {0}, []byte(`{"a":1}`)}).Draw(t, "payload"))
	set := func(key string, value *rapid.Generator[string]) {
		if maybe.Draw(t, key+"?") {
			msg.Metadata[key] = value.Draw(t, key)
		}
	}
	set(event.IDKey, id)
	set(event.TypeKey, rapid.SampledFrom([]string{"", "order.paid", "null"}))
	set(event.VersionKey, number)
	set(event.KindKey, rapid.SampledFrom([]string{event.KindFact, event.KindCommand}))
	set(event.TenantKey, rapid.SampledFrom([]string{"", "acme"}))
	set(event.PartitionKeyKey, rapid.SampledFrom([]string{"", "4711", "other"}))
	if maybe.Draw(t, "aggregate?") {
		msg.Metadata[event.AggregateTypeKey] = "order"
		msg.Metadata[event.AggregateIDKey] = rapid.SampledFrom([]string{"4711", "other"}).Draw(t, "aggregate")
		msg.Metadata[event.AggregateVersionKey] = number.Draw(t, "aggregate version")
	}
	set("name", rapid.SampledFrom([]string{"", "OrderPaid"}))
	set(event.CorrelationIDKey, text)
	set(`k"\ü`, text)
	return msg
}

// requireSame compares what came back with what was published. The event_id stands in for the message UUID.
func requireSame(t require.TestingT, want, got *message.Message) {
	metadata := message.Metadata{event.IDKey: want.UUID}
	for key, value := range want.Metadata {
		metadata[key] = value
	}
	require.Equal(t, metadata, got.Metadata)
	require.Equal(t, metadata[event.IDKey], got.UUID)
	require.Equal(t, want.Payload, got.Payload)
	require.Equal(t, want.Payload == nil, got.Payload == nil, "a tombstone is not an empty payload")
	wantKey, wantOK := event.Key(want)
	gotKey, gotOK := event.Key(got)
	require.Equal(t, wantKey, gotKey)
	require.Equal(t, wantOK, gotOK, "no record key is not a zero-length one")
}

func TestColumnsGiveBackWhatWasPublished(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := published(t)
		got, err := outbox.SplitAndJoin("orders", want)
		require.NoError(t, err)
		requireSame(t, want, got)
	})
}

func TestTableGivesBackWhatWasPublished(t *testing.T) {
	_, dsn := testkit.MigratedDatabase(t)
	for _, driver := range []string{"postgres", "pgx"} {
		db := testkit.Open(t, driver, dsn)
		rapid.Check(t, func(rt *rapid.T) {
			want := published(rt)
			_, err := db.ExecContext(t.Context(), "delete from millrace.outbox")
			require.NoError(rt, err)
			write(t, db, func(publisher *outbox.Publisher) error { return publisher.Publish("orders", want) })
			id := want.Metadata[event.IDKey]
			if id == "" {
				id = want.UUID
			}
			got, err := outbox.ReadBack(t.Context(), db, id)
			require.NoError(rt, err)
			requireSame(rt, want, got)
		})
	}
}

func FuzzColumnsGiveBackWhatWasPublished(f *testing.F) {
	f.Add("id", "order.paid", "event_version", "007", []byte(nil))
	f.Add("id", "", "partition_key", "", []byte{})
	f.Add("ü", "x", "name", "\u2028<&>\x7f\u0001\"", []byte{0, 255})
	f.Fuzz(func(t *testing.T, id, eventType, key, value string, payload []byte) {
		want := event.New(eventType, payload, event.WithID(id), event.Meta(key, value))
		got, err := outbox.SplitAndJoin("orders", want)
		if err != nil {
			require.ErrorIs(t, err, event.ErrInvalid)
			require.True(t, event.IsPermanent(err))
			return
		}
		want.UUID = want.Metadata[event.IDKey]
		requireSame(t, want, got)
	})
}
