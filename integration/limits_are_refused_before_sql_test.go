package integration_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

func TestPublishingNothingIsNoError(t *testing.T) {
	s := newSystem(t, 1)
	require.NoError(t, outbox.InTx(context.Background(), s.db, func(ctx context.Context, tx *sql.Tx) error {
		bound, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
		require.NoError(t, err)
		require.NoError(t, bound.Publish(s.topic))
		require.NoError(t, s.outbox.Publish(s.topic))
		_, err = tx.ExecContext(ctx, "insert into orders values ('7', 'new', 1)")
		return err
	}))
	require.Equal(t, 1, s.count("select count(*) from orders"))
	require.Zero(t, s.relayOnce())
}

func TestLongEventIDsAreKeptOrRefusedNeverCut(t *testing.T) {
	s := newSystem(t, 1)
	kept := []string{
		strings.Repeat("a", 26), strings.Repeat("b", 36), strings.Repeat("c", 37), strings.Repeat("d", 128), strings.Repeat("e", 255), "zahlung-größe-支払い",
	}
	refused := []string{strings.Repeat("x", 256), strings.Repeat("y", 300), strings.Repeat("ä", 128), "", "a\nb", "\xff"}
	require.NoError(t, outbox.InTx(context.Background(), s.db, func(ctx context.Context, tx *sql.Tx) error {
		for _, id := range refused {
			err := s.outbox.Publish(s.topic, event.InTx(ctx, event.New("e", nil, event.WithID(id)), tx))
			require.ErrorIs(t, err, event.ErrInvalid, "%q", id)
			require.ErrorContains(t, err, event.IDKey)
		}
		for _, id := range kept {
			require.NoError(t, s.outbox.Publish(s.topic, event.InTx(ctx, event.New("e", nil, event.WithID(id)), tx)))
		}
		return nil
	}))
	require.Equal(t, len(kept), s.relayOnce())
	require.ElementsMatch(t, kept, s.wire())
	consumer := s.name("projection")
	s.consume(consumer, s.topic, apply(consumer))
	s.awaitEffects(consumer, kept...)
}

func TestTopicsKafkaWillNeverTakeAreRefusedInTheBusinessCall(t *testing.T) {
	s := newSystem(t, 1)
	require.NoError(t, outbox.InTx(context.Background(), s.db, func(ctx context.Context, tx *sql.Tx) error {
		for _, topic := range []string{"", "a b", "a:b", "$x", strings.Repeat("a", 250), ".", ".."} {
			require.ErrorIs(t, s.outbox.Publish(topic, event.InTx(ctx, orderEvent("7", 1), tx)), event.ErrInvalid, topic)
		}
		return s.outbox.Publish(s.topic, event.InTx(ctx, orderEvent("7", 1), tx))
	}))
	require.Equal(t, 1, s.relayOnce())
	require.Equal(t, []string{"7-v1"}, s.wire())
}
