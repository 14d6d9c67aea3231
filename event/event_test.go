package event_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
)

func TestNewEventParsesToWhatItWasMadeOf(t *testing.T) {
	msg := event.New("order.paid", []byte("{}"), event.WithID("payment-7"), event.Aggregate("order", "4711", 3),
		event.Command(), event.SchemaVersion(2), event.CausedBy("checkout-1"), event.Tenant("acme"), event.PartitionKey(""))
	e, err := event.Parse(msg)
	require.NoError(t, err)
	require.Equal(t, event.Event{
		ID: "payment-7", Type: "order.paid", Version: 2, Kind: event.KindCommand,
		AggregateType: "order", AggregateID: "4711", AggregateVersion: 3,
		HasPartitionKey: true, CausationID: "checkout-1", Tenant: "acme",
	}, e)
	require.Equal(t, "payment-7", msg.UUID)
}

func TestGeneratedIDsDiffer(t *testing.T) {
	first, second := event.New("a", nil), event.New("a", nil)
	require.NotEqual(t, first.UUID, second.UUID)
}

func TestEveryBadFieldIsNamed(t *testing.T) {
	msg := message.NewMessage("", nil)
	msg.Metadata = message.Metadata{
		event.VersionKey: "0", event.KindKey: "rumour", event.AggregateIDKey: "4711",
	}
	_, err := event.Parse(msg)
	require.ErrorIs(t, err, event.ErrInvalid)
	for _, field := range []string{event.IDKey, event.VersionKey, event.KindKey, event.AggregateTypeKey} {
		require.ErrorContains(t, err, field)
	}
}

func TestNumbersOutOfRangeAreRefused(t *testing.T) {
	for _, c := range []struct{ key, value string }{
		{event.VersionKey, "2147483648"}, {event.VersionKey, "-1"}, {event.VersionKey, "one"},
		{event.AggregateVersionKey, "0"}, {event.AggregateVersionKey, "9223372036854775808"},
	} {
		msg := event.New("a", nil, event.Aggregate("order", "1", 1), event.Meta(c.key, c.value))
		_, err := event.Parse(msg)
		require.ErrorContains(t, err, c.key, "%s=%s", c.key, c.value)
	}
}

func TestEventIDsAreKeptWholeOrRefusedByName(t *testing.T) {
	for _, id := range []string{strings.Repeat("x", 26), strings.Repeat("x", 37), strings.Repeat("x", 255), "bestellung-größe-7", "注文-1"} {
		require.NoError(t, event.ValidateID(id), id)
	}
	for _, id := range []string{"", strings.Repeat("x", 256), "a\x00b", "a\nb", "\xff\xfe", "a\u0085b"} {
		err := event.ValidateID(id)
		require.ErrorIs(t, err, event.ErrInvalid, "%q", id)
		require.ErrorContains(t, err, event.IDKey, "%q", id)
	}
}

func TestTopicsKafkaNeverAcceptsAreRefused(t *testing.T) {
	for _, topic := range []string{"orders", "Orders", "a.b", "a-b", "a_b", strings.Repeat("a", 249), "..."} {
		require.NoError(t, event.ValidateTopic(topic), topic)
	}
	for _, topic := range []string{"", "a b", "a:b", "$x", strings.Repeat("a", 250), ".", "..", "größe"} {
		require.ErrorIs(t, event.ValidateTopic(topic), event.ErrInvalid, topic)
	}
	require.ErrorContains(t, event.ValidateTopic("größe"), "'ö'")
}

func TestZeroLengthKeyIsNotNoKey(t *testing.T) {
	for _, c := range []struct {
		name string
		msg  *message.Message
		key  string
		ok   bool
	}{
		{"none", event.New("a", nil), "", false},
		{"zero length", event.New("a", nil, event.PartitionKey("")), "", true},
		{"aggregate", event.New("a", nil, event.Aggregate("order", "1", 1)), "1", true},
		{"explicit over aggregate", event.New("a", nil, event.Aggregate("order", "1", 1), event.PartitionKey("k")), "k", true},
		{"explicit empty over aggregate", event.New("a", nil, event.Aggregate("order", "1", 1), event.PartitionKey("")), "", true},
	} {
		key, ok := event.Key(c.msg)
		require.Equal(t, c.key, key, c.name)
		require.Equal(t, c.ok, ok, c.name)
	}
}

func TestPermanentSurvivesWrapping(t *testing.T) {
	cause := errors.New("no such field")
	err := fmt.Errorf("decode: %w", event.Permanent(cause))
	require.True(t, event.IsPermanent(err))
	require.ErrorIs(t, err, cause)
	require.False(t, event.IsPermanent(cause))
	require.NoError(t, event.Permanent(nil))
}

// A recreated topic starts its offsets again at 0: what is there then is another event.
func TestDerivedIDsTellRecordsApart(t *testing.T) {
	at := time.UnixMilli(1_790_000_000_000)
	base := event.Delivery{Topic: "orders", Partition: 1, Offset: 7, Timestamp: at}
	id := event.DeriveID(base, []byte("body"))
	require.Equal(t, id, event.DeriveID(base, []byte("body")), "stable")
	require.NoError(t, event.ValidateID(id))
	for name, other := range map[string]string{
		"topic":     event.DeriveID(event.Delivery{Topic: "orders1", Partition: 1, Offset: 7, Timestamp: at}, []byte("body")),
		"partition": event.DeriveID(event.Delivery{Topic: "orders", Partition: 2, Offset: 7, Timestamp: at}, []byte("body")),
		"offset":    event.DeriveID(event.Delivery{Topic: "orders", Partition: 1, Offset: 8, Timestamp: at}, []byte("body")),
		"timestamp": event.DeriveID(event.Delivery{Topic: "orders", Partition: 1, Offset: 7, Timestamp: at.Add(time.Millisecond)}, []byte("body")),
		"body":      event.DeriveID(base, []byte("other")),
	} {
		require.NotEqual(t, id, other, name)
	}
}

func FuzzValidateIDNeverAcceptsWhatCannotBeKept(f *testing.F) {
	f.Add("order-1")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, id string) {
		if event.ValidateID(id) == nil {
			require.LessOrEqual(t, len(id), event.MaxIDLength)
			require.Equal(t, id, strings.ToValidUTF8(id, "?"))
			require.NotContains(t, id, "\x00")
		}
	})
}
