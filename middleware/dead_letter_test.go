package middleware_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmiddleware "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/middleware"
)

func TestAFailureIsRetriedAndThenDeadLetteredInThatOrder(t *testing.T) {
	own := func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) { return h(msg) }
	}
	for name, chain := range map[string]func(r *rig) []message.HandlerMiddleware{
		"alone": (*rig).chain,
		"before": func(r *rig) []message.HandlerMiddleware {
			return append([]message.HandlerMiddleware{own}, r.chain()...)
		},
		"after": func(r *rig) []message.HandlerMiddleware { return append(r.chain(), own) },
		"before, stock": func(r *rig) []message.HandlerMiddleware {
			return append([]message.HandlerMiddleware{wmmiddleware.Recoverer, wmmiddleware.CorrelationID}, r.chain()...)
		},
		"after, stock": func(r *rig) []message.HandlerMiddleware {
			return append(r.chain(), wmmiddleware.Timeout(time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var calls atomicCounter
			r.router(chain(r), map[string]message.NoPublishHandlerFunc{"projection": failing(&calls)})
			r.deliver(event.New("order.paid", []byte("{}"), event.WithID("e-1")))

			require.Equal(t, 4, calls.get())
			published := r.published()
			require.Len(t, published, 1)
			require.Equal(t, "dlq:projection:e-1:1", published[0].id)
			dead := r.dead()
			require.Len(t, dead, 1)
			require.Equal(t, 4, dead[0].Attempts)
			require.Equal(t, 1, dead[0].Deaths)
			require.Equal(t, inbox.ClassTransient, dead[0].ErrorClass)
		})
	}
}

func TestADeadLetterKeepsTheWholeEvent(t *testing.T) {
	r := newRig(t)
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": func(msg *message.Message) error {
		msg.Metadata["added by the handler"] = "x"
		return event.Permanent(errFailed)
	}})
	payload := make([]byte, 256)
	for i := range payload {
		payload[i] = byte(i)
	}
	msg := event.New("order.paid", payload, event.Aggregate("order", "4711", 3), event.CausedBy("c-1"),
		event.Meta("binary", "\xff\xfe\x00"), event.Meta("bad\xffname", "value"))
	at := event.Delivery{Topic: "orders", Partition: 3, Offset: 42, Key: []byte("4711"), Timestamp: time.UnixMilli(1_700_000_000_000).UTC()}
	r.deliver(r.at(msg, at))

	dead := r.dead()
	require.Len(t, dead, 1)
	d := dead[0]
	require.Equal(t, payload, d.Payload)
	require.Equal(t, map[string]string(msg.Metadata), d.Headers)
	require.Equal(t, []byte("4711"), d.Key)
	require.EqualValues(t, 3, *d.Partition)
	require.EqualValues(t, 42, *d.Offset)
	require.Equal(t, at.Timestamp, d.RecordTime.UTC())
	require.Equal(t, "orders", d.Topic)
	require.Equal(t, 1, d.Attempts, "a permanent error is not retried")

	published := r.published()
	require.Len(t, published, 1)
	require.Equal(t, "orders.dlq", published[0].topic)
	require.Equal(t, payload, published[0].payload)
	require.Equal(t, "4711", published[0].key.String)
	m := published[0].metadata
	require.Equal(t, "handler failed", m[middleware.ReasonPoisonedKey])
	require.Equal(t, "orders", m[middleware.TopicPoisonedKey])
	require.Equal(t, "projection", m[middleware.HandlerPoisonedKey])
	require.NotEmpty(t, m[middleware.SubscriberPoisonedKey])
	require.Equal(t, inbox.ClassPermanent, m[middleware.ErrorClassPoisonedKey])
	require.Equal(t, "1", m[middleware.AttemptsPoisonedKey])
	require.Equal(t, "3", m[middleware.PartitionPoisonedKey])
	require.Equal(t, "42", m[middleware.OffsetPoisonedKey])
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte("4711")), m[middleware.KeyPoisonedKey])
	require.Equal(t, "c-1", m[event.CausationIDKey])
	require.Equal(t, msg.Metadata[event.IDKey], m[event.OriginalIDKey])
	require.Equal(t, "3", m["original_aggregate_version"])
	require.Contains(t, m[middleware.HeadersPoisonedKey], base64.StdEncoding.EncodeToString([]byte("\xff\xfe\x00")))
}

func TestATombstoneAndAnEmptyPayloadStayApartInDeadLetters(t *testing.T) {
	r := newRig(t)
	var calls atomicCounter
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": failing(&calls)})
	r.deliver(r.at(event.New("order.deleted", nil, event.WithID("a")), event.Delivery{Topic: "orders", Key: []byte("k")}))
	r.deliver(r.at(event.New("order.cleared", []byte{}, event.WithID("b")), event.Delivery{Topic: "orders", Key: []byte{}}))

	dead, published := r.dead(), r.published()
	require.Nil(t, dead[0].Payload)
	require.Nil(t, published[0].payload)
	require.Equal(t, "k", published[0].key.String)
	require.Equal(t, []byte{}, dead[1].Payload)
	require.Equal(t, []byte{}, published[1].payload)
	require.Equal(t, []byte{}, dead[1].Key)
	require.True(t, published[1].key.Valid)
	require.Empty(t, published[1].key.String)
}

func TestPanicsCountLikeFailures(t *testing.T) {
	var table map[string]int
	for name, misbehave := range map[string]func(){
		"error":       func() { panic(errFailed) },
		"string":      func() { panic("a string") },
		"nil map":     func() { table["x"] = 1 },
		"Goexit":      runtime.Goexit,
		"nested text": func() { panic(fmt.Sprintf("%s\x00", "nested")) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var calls atomicCounter
			r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": func(msg *message.Message) error {
				if msg.Metadata[event.IDKey] == "good" {
					return write(msg)
				}
				calls.add()
				if err := write(msg); err != nil {
					return err
				}
				misbehave()
				return nil
			}})
			r.deliver(event.New("order.paid", nil, event.WithID("bad")), event.New("order.paid", nil, event.WithID("good")))

			require.Equal(t, 4, calls.get())
			require.Equal(t, 1, r.effects(), "the transactions were rolled back, the next event was handled")
			dead := r.dead()
			require.Len(t, dead, 1)
			require.Equal(t, inbox.ClassPanic, dead[0].ErrorClass)
			require.Contains(t, dead[0].Stack, "dead_letter_test.go")
			require.NotEmpty(t, r.published()[0].metadata[middleware.StackPoisonedKey])
		})
	}
}

func TestAnUndecodableRecordIsDeadAsRawBytes(t *testing.T) {
	r := newRig(t)
	var calls atomicCounter
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": failing(&calls)})
	garbage := []byte{0xff, 0x00, 0x7b}
	r.deliver(r.at(message.NewMessage("garbage", garbage), event.Delivery{
		Topic: "orders", Partition: 1, Offset: 7, Key: []byte{0xff}, Undecodable: errors.New("bad magic"),
	}))

	require.Zero(t, calls.get())
	dead := r.dead()
	require.Len(t, dead, 1)
	require.Equal(t, garbage, dead[0].Payload)
	require.Equal(t, []byte{0xff}, dead[0].Key)
	require.Contains(t, dead[0].LastError, "bad magic")
	published := r.published()
	require.Equal(t, garbage, published[0].payload)
	require.False(t, published[0].key.Valid, "a key that is not text is in a header")
	require.Equal(t, "/w==", published[0].metadata[middleware.KeyPoisonedKey])
}

func TestOneEventCanBeDeadForTwoConsumers(t *testing.T) {
	r := newRig(t)
	var a, b atomicCounter
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"a": failing(&a), "b": failing(&b)})
	r.deliver(event.New("order.paid", nil, event.WithID("e-1"), event.Aggregate("order", "4711", 1)))
	require.Len(t, r.dead(), 2)
	require.Len(t, r.published(), 2)
}

func TestADeadLetterThatCannotBeWrittenIsNotLost(t *testing.T) {
	r := newRig(t)
	_, err := r.db.Exec("alter table millrace.outbox add constraint broken check (topic <> 'orders.dlq')")
	require.NoError(t, err)
	var calls atomicCounter
	mended := make(chan struct{})
	chain := append([]message.HandlerMiddleware{func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			produced, err := h(msg)
			if err != nil && calls.add() == 1 {
				if !errors.Is(err, errFailed) {
					panic(err)
				}
				_, err := r.db.Exec("alter table millrace.outbox drop constraint broken")
				if err != nil {
					panic(err)
				}
				close(mended)
			}
			return produced, err
		}
	}}, r.chain()...)
	r.router(chain, map[string]message.NoPublishHandlerFunc{"projection": func(*message.Message) error { return event.Permanent(errFailed) }})
	r.deliver(event.New("order.paid", nil))

	<-mended
	require.Equal(t, 1, calls.get())
	require.Len(t, r.dead(), 1)
	require.Len(t, r.published(), 1)
}

func TestAnEventThatWasDoneElsewhereMeanwhileDoesNotDie(t *testing.T) {
	r := newRig(t)
	msg := event.New("order.paid", []byte("{}"), event.WithID("e-1"))
	zombie := middleware.DeadLetter{DB: r.db, Consumer: "projection", Publisher: r.outbox}.Middleware(
		func(msg *message.Message) ([]*message.Message, error) {
			_, err := middleware.Dedup{DB: r.db, Consumer: "projection"}.Middleware(
				func(msg *message.Message) ([]*message.Message, error) { return nil, write(msg) })(msg.Copy())
			return nil, errors.Join(errFailed, err)
		})
	_, err := zombie(msg)
	require.NoError(t, err)
	require.Equal(t, 1, r.effects())
	require.Empty(t, r.dead())
	require.Empty(t, r.published())
}

func TestAnOutageIsNoFailureOfTheEvent(t *testing.T) {
	r := newRig(t)
	for _, outage := range []error{
		&net.OpError{Op: "dial", Err: errors.New("connection refused")},
		fmt.Errorf("wrapped: %w", inbox.ErrInfrastructure),
	} {
		var calls atomicCounter
		r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": func(msg *message.Message) error {
			if calls.add() <= 6 {
				return outage
			}
			return write(msg)
		}})
		before := r.effects()
		r.deliver(event.New("order.paid", nil))
		require.Equal(t, before+1, r.effects())
		require.Empty(t, r.dead())
	}
}

func TestWithoutADatabaseDeadLettersGoToAnyPublisher(t *testing.T) {
	published := &recorder{}
	dead := middleware.DeadLetter{Publisher: published, Consumer: "projection"}
	handle := dead.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, errFailed })
	msg := event.New("order.paid", nil, event.WithID("e-1"), event.PartitionKey("4711"))
	_, err := handle(msg)
	require.NoError(t, err)
	require.Len(t, published.messages, 1)
	record := published.messages[0]
	require.Nil(t, record.Payload)
	require.Equal(t, "dlq:projection:e-1:1", record.UUID)
	require.Equal(t, "4711", record.Metadata[event.PartitionKeyKey])
	require.NoError(t, event.ValidateTopic(published.topics[0]))

	published.err = errors.New("broker away")
	_, err = handle(msg)
	require.ErrorIs(t, err, errFailed)
	require.ErrorIs(t, err, published.err)
}

func TestTheLogNamesADeadLetterAndHoldsNoPayload(t *testing.T) {
	logger := newCaptured()
	handle := middleware.DeadLetter{Publisher: &recorder{}, Consumer: "projection", Logger: logger}.Middleware(
		func(*message.Message) ([]*message.Message, error) { return nil, errFailed })
	_, err := handle(event.New("order.paid", []byte("canary")))
	require.NoError(t, err)
	require.Equal(t, []string{"Event is given up: handler failed"}, *logger.lines)
}

type recorder struct {
	topics   []string
	messages []*message.Message
	err      error
}

func (r *recorder) Publish(topic string, messages ...*message.Message) error {
	if r.err != nil {
		return r.err
	}
	for _, msg := range messages {
		r.topics, r.messages = append(r.topics, topic), append(r.messages, msg)
	}
	return nil
}

func (r *recorder) Close() error { return nil }
