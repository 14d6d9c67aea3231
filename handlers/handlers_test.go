package handlers_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/handlers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type OrderPaid struct {
	Order  string    `json:"order"`
	Amount int8      `json:"amount"`
	At     time.Time `json:"at"`
}

// inTx gives the message a transaction that no handler here uses.
func inTx(msg *message.Message) *message.Message {
	return event.InTx(context.Background(), msg, &sql.Tx{})
}

func TestAHandlerGetsTheDecodedEventAndTheTransaction(t *testing.T) {
	msg := inTx(event.New("order.paid", []byte(`{"order":"4711","amount":3}`)))
	want, _ := event.TxFromContext(msg.Context())
	err := handlers.JSON(func(_ context.Context, tx *sql.Tx, e OrderPaid) error {
		require.Same(t, want, tx)
		require.Equal(t, OrderPaid{Order: "4711", Amount: 3}, e)
		return nil
	})(msg)
	require.NoError(t, err)

	events, err := handlers.JSONWithEvents(func(context.Context, *sql.Tx, OrderPaid) ([]*message.Message, error) {
		return []*message.Message{event.New("invoice.due", nil)}, nil
	})(msg)
	require.NoError(t, err)
	require.Len(t, events, 1)
}

func TestEventsOfAFailedHandlerAreNotReturned(t *testing.T) {
	failed := errors.New("failed")
	events, err := handlers.JSONWithEvents(func(context.Context, *sql.Tx, OrderPaid) ([]*message.Message, error) {
		return []*message.Message{event.New("invoice.due", nil)}, failed
	})(inTx(event.New("order.paid", []byte(`{}`))))
	require.ErrorIs(t, err, failed)
	require.Empty(t, events)
}

func TestAnUndecodablePayloadIsPermanentAndItsContentStaysOutOfTheError(t *testing.T) {
	handle := handlers.JSON(func(context.Context, *sql.Tx, OrderPaid) error { panic("called") })
	for payload, want := range map[string]string{
		``:                                `invalid JSON at byte 0`,
		`{"order"`:                        `invalid JSON at byte 8`,
		`{"amount":4711}`:                 `field "amount" does not fit int8, at byte 14`,
		`{"amount":"canary"}`:             `field "amount" does not fit int8, at byte 18`,
		`{"at":"canary"}`:                 `*time.ParseError`,
		`{} {}`:                           `invalid JSON at byte 4`,
		"\xff\x00":                        `invalid JSON at byte 1`,
		`["` + string(make([]byte, 9)):    `invalid JSON at byte 3`,
		`{"order":{"canary":["canary"]}}`: `field "order" does not fit string, at byte 10`,
	} {
		err := handle(inTx(event.New("order.paid", []byte(payload))))
		require.ErrorIs(t, err, handlers.ErrUndecodable)
		require.True(t, event.IsPermanent(err))
		require.EqualError(t, err, "handlers: payload cannot be decoded into handlers_test.OrderPaid: "+want)
	}
}

func TestATombstoneIsNotDecodedIntoAZeroValue(t *testing.T) {
	err := handlers.JSON(func(context.Context, *sql.Tx, OrderPaid) error { panic("called") })(inTx(event.New("order.deleted", nil)))
	require.ErrorIs(t, err, handlers.ErrTombstone)
	require.True(t, event.IsPermanent(err))

	called := false
	err = handlers.Raw(func(_ context.Context, _ *sql.Tx, msg *message.Message) error {
		called = true
		require.Nil(t, msg.Payload)
		return nil
	})(inTx(event.New("order.deleted", nil)))
	require.NoError(t, err)
	require.True(t, called)
}

func TestAMissingTransactionIsNamed(t *testing.T) {
	err := handlers.JSON(func(context.Context, *sql.Tx, OrderPaid) error { panic("called") })(event.New("order.paid", []byte("{}")))
	require.ErrorIs(t, err, handlers.ErrNoTx)
	require.False(t, event.IsPermanent(err), "the wiring is to blame, not the event")
}

func TestAnUndecodableRecordIsPermanent(t *testing.T) {
	broken := errors.New("bad magic")
	msg := message.NewMessage("", nil)
	msg.SetContext(event.ContextWithDelivery(context.Background(), event.Delivery{Undecodable: broken}))
	err := handlers.Raw(func(context.Context, *sql.Tx, *message.Message) error { panic("called") })(msg)
	require.ErrorIs(t, err, broken)
	require.True(t, event.IsPermanent(err))
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"order":"4711","amount":3}`))
	f.Add([]byte(`{"order":"canary`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		msg := inTx(event.New("order.paid", payload))
		err := handlers.JSON(func(context.Context, *sql.Tx, OrderPaid) error { return nil })(msg)
		require.True(t, err == nil || event.IsPermanent(err))
	})
}
