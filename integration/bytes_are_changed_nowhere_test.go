package integration_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
	"github.com/millrace-go/millrace/pipeline"
)

func payloads(t *testing.T) map[string][]byte {
	t.Helper()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := w.Write([]byte(strings.Repeat("millrace ", 1000)))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return map[string][]byte{
		"every byte": all, "gzip": zipped.Bytes(), "odd json": []byte("{\"a\":1e2,  \"a\":2}\r\n"), "zero": {0}, "empty": {},
	}
}

func TestBytesAreChangedNowhere(t *testing.T) {
	s := newSystem(t, 2)
	consumer := s.name("projection")
	var mutex sync.Mutex
	arrived := map[string][32]byte{}
	p := s.pipeline(pipeline.Config{})
	require.NoError(t, p.Handle(consumer, s.topic, func(msg *message.Message) error {
		mutex.Lock()
		defer mutex.Unlock()
		arrived[msg.UUID] = sha256.Sum256(msg.Payload)
		return effect(msg.Context(), consumer, msg)
	}))
	s.start(p)
	expected := map[string][32]byte{}
	ids := []string{}
	for name, payload := range payloads(t) {
		expected[name] = sha256.Sum256(payload)
		ids = append(ids, name)
		s.publish(s.topic, event.New("bytes", payload, event.WithID(name)))
	}
	s.awaitEffects(consumer, ids...)
	require.Equal(t, expected, arrived)
	for _, record := range testkit.ReadTopic(t, s.topic) {
		require.Equal(t, expected[header(record, event.IDKey)], sha256.Sum256(record.Value))
	}
}

// What PostgreSQL's text cannot hold is refused before any statement: the caller's transaction goes on.
func TestUnstorableMetadataIsRefusedBeforeSQL(t *testing.T) {
	s := newSystem(t, 1)
	long := strings.Repeat("ä", 32<<10)
	require.NoError(t, outbox.InTx(context.Background(), s.db, func(ctx context.Context, tx *sql.Tx) error {
		for i, value := range []string{"a\x00b", "\xff\xfe", "\xed\xa0\x80"} {
			msg := event.New("e", nil, event.Meta("note", value))
			err := s.outbox.Publish(s.topic, event.InTx(ctx, msg, tx))
			require.ErrorIs(t, err, event.ErrInvalid)
			require.ErrorContains(t, err, "note")
			_, err = tx.ExecContext(ctx, "insert into orders values ($1, 'new', 1)", fmt.Sprint(i))
			require.NoError(t, err)
		}
		return s.outbox.Publish(s.topic, event.InTx(ctx, event.New("e", nil, event.Meta("note", long)), tx))
	}))
	require.Equal(t, 3, s.count("select count(*) from orders"))
	require.Equal(t, 1, s.relayOnce())
	require.Equal(t, long, header(testkit.ReadTopic(t, s.topic)[0], "note"))
}

// A missing payload is a null value and an empty one a value of length 0, and the same for keys, on every way there is.
func TestNullIsNotEmpty(t *testing.T) {
	s := newSystem(t, 1)
	s.createTopic(s.topic+".dlq", 1)
	consumer := s.name("projection")
	var mutex sync.Mutex
	mended := false
	seen := map[string][]string{}
	p := s.pipeline(pipeline.Config{Retry: noRetries})
	require.NoError(t, p.Handle(consumer, s.topic, handlers.Raw(func(ctx context.Context, _ *sql.Tx, msg *message.Message) error {
		mutex.Lock()
		defer mutex.Unlock()
		d, _ := event.DeliveryFromContext(ctx)
		seen[msg.UUID] = append(seen[msg.UUID], fmt.Sprintf("%#v %#v", []byte(msg.Payload), d.Key))
		if !mended {
			return errFailed
		}
		return effect(ctx, consumer, msg)
	})))
	s.start(p)
	s.publish(s.topic,
		event.New("e", nil, event.WithID("null"), event.PartitionKey("k")),
		event.New("e", []byte{}, event.WithID("empty"), event.PartitionKey("k")),
		event.New("e", nil, event.WithID("null, empty key"), event.PartitionKey("")),
		event.New("e", []byte{}, event.WithID("empty, no key")),
	)
	expected := map[string]string{
		"null": `[]byte(nil) []byte{0x6b}`, "empty": `[]byte{} []byte{0x6b}`,
		"null, empty key": `[]byte(nil) []byte{}`, "empty, no key": `[]byte{} []byte(nil)`,
	}
	s.awaitInbox(consumer, "dead", len(expected))
	s.awaitSent()
	for _, topic := range []string{s.topic, s.topic + ".dlq"} {
		id := map[string]string{s.topic: event.IDKey, s.topic + ".dlq": event.OriginalIDKey}[topic]
		for _, record := range testkit.ReadTopic(t, topic) {
			require.Equal(t, expected[header(record, id)], fmt.Sprintf("%#v %#v", record.Value, record.Key), topic)
		}
	}
	mutex.Lock()
	mended = true
	mutex.Unlock()
	ids := []string{}
	for id := range expected {
		ids = append(ids, id)
		s.replay(consumer, id)
	}
	s.awaitEffects(consumer, ids...)
	for id, value := range expected {
		require.Equal(t, []string{value, value}, seen[id], "at the first delivery and at the replay of %q", id)
	}
}
