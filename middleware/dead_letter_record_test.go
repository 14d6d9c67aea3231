package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmiddleware "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/middleware"
)

func TestPoisonedKeysAreThoseOfWatermill(t *testing.T) {
	require.Equal(t, wmmiddleware.ReasonForPoisonedKey, middleware.ReasonPoisonedKey)
	require.Equal(t, wmmiddleware.PoisonedTopicKey, middleware.TopicPoisonedKey)
	require.Equal(t, wmmiddleware.PoisonedHandlerKey, middleware.HandlerPoisonedKey)
	require.Equal(t, wmmiddleware.PoisonedSubscriberKey, middleware.SubscriberPoisonedKey)
}

func TestHostileErrorTextCannotKeepAnEventFromBecomingADeadLetter(t *testing.T) {
	r := newRig(t)
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": func(*message.Message) error {
		return event.Permanent(errors.New(strings.Repeat("stack\x00\xff\xfe\n\u202e\t", 200_000)))
	}})
	payload := []byte(strings.Repeat("x", 1_048_588-1024-100))
	msg := event.New("order.paid", payload, event.WithID("big"))
	r.deliver(r.at(msg, event.Delivery{Topic: "orders", Partition: 1, Offset: 1_000_000, Key: []byte("4711")}))

	dead, published := r.dead(), r.published()
	require.Len(t, dead, 1)
	require.Equal(t, payload, dead[0].Payload)
	require.LessOrEqual(t, len(dead[0].LastError), 4<<10)
	require.Len(t, published, 1, "a record near the broker's limit has room for the headers")
	require.Equal(t, payload, published[0].payload)
	reason := published[0].metadata[middleware.ReasonPoisonedKey]
	for _, text := range []string{dead[0].LastError, reason} {
		require.True(t, utf8.ValidString(text))
		require.False(t, strings.ContainsFunc(text, unicode.IsControl))
		require.Contains(t, text, `stack\x00\xff\xfe\n\u202e\t`)
	}
}

func TestARecordThatCannotBePublishedDoesNotKeepAnEventFromBecomingADeadLetter(t *testing.T) {
	r := newRig(t)
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": func(*message.Message) error {
		return event.Permanent(errFailed)
	}})
	r.deliver(event.New("order.paid", make([]byte, 1_100_000)))
	require.Len(t, r.dead(), 1)
	require.Empty(t, r.published())
}

func TestStrangeMetadataCannotKeepAnEventFromBecomingADeadLetter(t *testing.T) {
	r := newRig(t)
	var calls atomicCounter
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": failing(&calls)})
	for _, attribute := range []event.Attribute{
		event.WithID(strings.Repeat("x", 300)), event.WithID("a\x00b"), event.WithID("a\xffb"), event.WithID(strings.Repeat("y", 255)),
		event.Meta(event.VersionKey, "one"), event.Meta(event.KindKey, "wish"), event.Meta(event.AggregateVersionKey, "-1"),
		event.Meta("event_type", strings.Repeat("t", 300)), event.Meta(event.TenantKey, strings.Repeat("t", 300)),
		event.Meta("", "empty name"), event.Meta("_watermill_message_uuid", "x"), event.PartitionKey("\xff"),
		event.Meta(event.OriginalIDKey, "another"), event.Meta("\xff", "\x00"),
	} {
		r.deliver(event.New("order.paid", []byte("{}"), attribute))
	}
	require.Len(t, r.dead(), 14)
	require.Len(t, r.published(), 14)
	for _, row := range r.published() {
		require.NoError(t, event.ValidateID(row.id))
	}
}

func TestErrorTextsHoldNoRowData(t *testing.T) {
	const canary = "canary-4711"
	queries := map[string]string{
		"unique":      "insert into secret values ('" + canary + "'), ('" + canary + "')",
		"check":       "insert into secret values ('" + canary + "x'), ('')",
		"syntax":      "select '" + canary + "'::int",
		"raised":      "do $$ begin raise exception 'refused %', '" + canary + "'; end $$",
		"undefined":   `select "` + canary + `" from secret`,
		"foreign key": "insert into child values ('" + canary + "')",
	}
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			_, err := r.db.Exec(`create table secret (word text constraint secret_key unique check (word <> ''));
				create table child (word text constraint child_fkey references secret (word))`)
			require.NoError(t, err)
			chain := r.chain()
			chain[len(chain)-1] = middleware.Dedup{DB: testkit.Open(t, driver, r.dsn)}.Middleware
			r.router(chain, map[string]message.NoPublishHandlerFunc{"projection": func(msg *message.Message) error {
				tx, _ := event.TxFromContext(msg.Context())
				_, err := tx.ExecContext(msg.Context(), queries[msg.Metadata[event.IDKey]])
				return fmt.Errorf("apply order: %w", err)
			}})
			for name := range queries {
				r.deliver(event.New("order.paid", nil, event.WithID(name)))
				d, err := r.store.Show(t.Context(), "projection", name)
				require.NoError(t, err)
				require.Contains(t, d.LastError, "apply order: database error ")
				for _, text := range []string{d.FirstError, d.LastError, d.Stack} {
					require.NotContains(t, text, canary)
				}
			}
			d, err := r.store.Show(t.Context(), "projection", "unique")
			require.NoError(t, err)
			require.Contains(t, d.LastError, `database error 23505 table "secret" constraint "secret_key"`)
			for _, row := range r.published() {
				require.NotContains(t, row.metadata[middleware.ReasonPoisonedKey], canary)
			}
		})
	}
}

func TestDeadLettersAlwaysHaveATopicKafkaAccepts(t *testing.T) {
	published := &recorder{}
	handle := middleware.DeadLetter{Publisher: published, Consumer: "projection"}.Middleware(
		func(*message.Message) ([]*message.Message, error) { return nil, errFailed })
	topics := []string{"orders", "orders/new", "orders new", strings.Repeat("a", 249), strings.Repeat("a", 248) + "b", "", "ümlaut"}
	for _, topic := range topics {
		msg := event.New("order.paid", nil)
		msg.SetContext(event.ContextWithDelivery(context.Background(), event.Delivery{Topic: topic}))
		_, err := handle(msg)
		require.NoError(t, err)
	}
	distinct := map[string]bool{}
	for _, topic := range published.topics {
		require.NoError(t, event.ValidateTopic(topic))
		distinct[topic] = true
	}
	require.Len(t, distinct, len(topics))
	require.Equal(t, "orders.dlq", published.topics[0])
}

func TestARecordIDThatIsTakenDoesNotHoldUpTheDeath(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			die := func(consumer, id string) {
				t.Helper()
				dead := middleware.DeadLetter{DB: testkit.Open(t, driver, r.dsn), Consumer: consumer, Publisher: r.outbox}
				msg := event.New("order.paid", []byte("of "+consumer), event.WithID(id))
				_, err := dead.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, errFailed })(msg)
				require.NoError(t, err)
			}
			die("a", "b:c")
			die("a:b", "c")
			_, err := r.db.Exec("delete from millrace.inbox where consumer = 'a'")
			require.NoError(t, err)
			die("a", "b:c")

			require.Len(t, r.dead(), 2)
			published := r.published()
			require.Len(t, published, 3, "every death has a record")
			require.Equal(t, "dlq:a:b:c:1", published[0].id)
			require.Regexp(t, `^dlq:a:b:[0-9a-f-]{36}:1$`, published[1].id)
			require.Regexp(t, `^dlq:a:[0-9a-f-]{36}:1$`, published[2].id)
			for i, original := range []string{"b:c", "c", "b:c"} {
				require.Equal(t, original, published[i].metadata[event.OriginalIDKey])
				require.Equal(t, []byte("of "+published[i].metadata[middleware.ConsumerPoisonedKey]), published[i].payload)
			}
		})
	}
}
