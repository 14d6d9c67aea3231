package inbox_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
)

// anyBytes makes text, broken text and NULs alike.
func anyBytes() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{"", "\x00", "\xff\xfe", "\xed\xa0\x80", "base64:", "base64:AAA=", `{"base64":"AAA="}`, "<&>\u2028"}))
}

func TestHeadersKeepEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		headers := rapid.MapOf(anyBytes(), anyBytes()).Draw(t, "headers")
		stored, err := inbox.EncodeHeaders(headers)
		require.NoError(t, err)
		got, err := inbox.DecodeHeaders(stored)
		require.NoError(t, err)
		require.Equal(t, headers, got)
	})
}

func TestHeadersAndBodiesKeepEveryByteInTheDatabase(t *testing.T) {
	store, db := newStore(t)
	rapid.Check(t, func(rt *rapid.T) {
		_, err := db.Exec("delete from millrace.inbox")
		require.NoError(rt, err)
		bytes := rapid.OneOf(rapid.Just([]byte(nil)), rapid.Just([]byte{}), rapid.SliceOfN(rapid.Byte(), 1, 20))
		e := inbox.Event{
			Consumer: "projection", ID: "e-1", HasDelivery: true,
			Delivery: event.Delivery{Topic: "orders", Key: bytes.Draw(rt, "key")},
			Payload:  bytes.Draw(rt, "payload"),
			Headers:  rapid.MapOf(anyBytes(), anyBytes()).Draw(rt, "headers"),
		}
		_, err = store.Bury(t.Context(), e, inbox.Death{Class: inbox.ClassPermanent, LastError: anyBytes().Draw(rt, "error")}, nil)
		require.NoError(rt, err)
		d, err := store.Show(t.Context(), "projection", "e-1")
		require.NoError(rt, err)
		require.Equal(rt, e.Headers, d.Headers)
		require.Equal(rt, e.Payload, d.Payload)
		require.Equal(rt, e.Delivery.Key, d.Key)
	})
}

func FuzzDecodeHeaders(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":"b"}`, `{"a":{"base64":"AAA="}}`, `{"base64:AAA=":"x"}`, `{"a":{"base64":null}}`, `{"a":null}`, `null`, `[]`, `{"base64:!":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		headers, err := inbox.DecodeHeaders(stored)
		if err != nil {
			return
		}
		again, err := inbox.EncodeHeaders(headers)
		require.NoError(t, err)
		require.True(t, json.Valid(again))
		got, err := inbox.DecodeHeaders(again)
		require.NoError(t, err)
		require.Equal(t, headers, got)
	})
}

func TestAHeaderThatIsNeitherTextNorBytesIsAnError(t *testing.T) {
	for _, stored := range []string{`{"a":1}`, `{"a":null}`, `{"a":{}}`, `{"base64:!":"x"}`, `[]`} {
		_, err := inbox.DecodeHeaders([]byte(stored))
		require.Error(t, err, stored)
	}
}
