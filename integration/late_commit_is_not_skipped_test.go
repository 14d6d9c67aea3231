package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
	"github.com/millrace-go/millrace/pipeline"
)

func (s *system) begin() *sql.Tx {
	s.t.Helper()
	tx, err := s.db.Begin()
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func (s *system) publishIn(tx *sql.Tx, order string, version int) {
	s.t.Helper()
	require.NoError(s.t, s.outbox.Publish(s.topic, event.InTx(context.Background(), orderEvent(order, version), tx)))
}

func TestLateCommitIsNotSkipped(t *testing.T) {
	s := newSystem(t, 3)
	consumer := s.name("projection")
	p := s.pipeline(pipeline.Config{})
	require.NoError(t, p.Handle(consumer, s.topic, apply(consumer)))
	s.start(p)

	late := s.begin()
	s.publishIn(late, "late", 1) // takes the lower position
	s.publish(s.topic, orderEvent("prompt", 1))
	s.awaitEffects(consumer, "prompt-v1") // the relay has read past the lower position
	require.NoError(t, late.Commit())

	s.awaitEffects(consumer, "prompt-v1", "late-v1")
	require.Zero(t, p.RelayStats().Swept, "found by the reader, not by the sweep")
}

func TestOrderOfTransactionIDsIsNotTheOrderOfCommits(t *testing.T) {
	s := newSystem(t, 3)
	s.relay(s.producer(kafka.PublisherConfig{}), quick())
	update := func(tx *sql.Tx, version int) {
		_, err := tx.Exec("update orders set version = $1 where id = '7'", version)
		require.NoError(t, err)
		s.publishIn(tx, "7", version)
		require.NoError(t, tx.Commit())
	}
	_, err := s.db.Exec("insert into orders values ('7', 'new', 0), ('unrelated', 'new', 0)")
	require.NoError(t, err)

	first := s.begin()
	_, err = first.Exec("update orders set state = 'touched' where id = 'unrelated'")
	require.NoError(t, err)
	update(s.begin(), 1)
	update(first, 2)

	s.awaitSent()
	require.Equal(t, []string{"7-v1", "7-v2"}, s.wire())
}

// Forty writers, some of which hold their transaction for up to two seconds or roll back: the topic has exactly what was
// committed, and with nothing failing each of it once.
func TestRandomWritersAreReadExactlyOnce(t *testing.T) {
	s := newSystem(t, 3)
	s.db.SetMaxOpenConns(80)
	f := s.relay(s.producer(kafka.PublisherConfig{}), quick())
	committed := []string{}
	var mutex sync.Mutex
	var working sync.WaitGroup
	for writer := range 40 {
		working.Go(func() {
			r := rand.New(rand.NewPCG(uint64(writer), 1))
			for n := range 10 {
				id := fmt.Sprintf("%d-%d", writer, n)
				hold := time.Duration(r.IntN(50)) * time.Millisecond
				if r.IntN(10) == 0 {
					hold = time.Duration(r.IntN(2000)) * time.Millisecond
				}
				err := s.writeHeld(id, fmt.Sprint(r.IntN(20)), hold, r.IntN(3) == 0, r.IntN(10) == 0)
				if err == nil {
					mutex.Lock()
					committed = append(committed, id)
					mutex.Unlock()
				}
			}
		})
	}
	working.Wait()
	s.awaitSent()
	require.ElementsMatch(t, committed, s.wire())
	require.NotZero(t, f.Stats().Late, "transactions committed out of order")
	require.Zero(t, f.Stats().Swept)
	require.Zero(t, s.count("select count(*) from millrace.outbox_receipt where attempts > 1"))
}

// writeHeld publishes and leaves the transaction open for a while, in the database itself.
func (s *system) writeHeld(id, key string, hold time.Duration, earlyID, rollback bool) error {
	return outbox.InTx(context.Background(), s.db, func(ctx context.Context, tx *sql.Tx) error {
		if earlyID {
			if _, err := tx.ExecContext(ctx, "select pg_current_xact_id(), pg_sleep(0.02)"); err != nil {
				return err
			}
		}
		if err := s.outbox.Publish(s.topic, event.InTx(ctx, event.New("e", nil, event.WithID(id), event.PartitionKey(key)), tx)); err != nil {
			return err
		}
		if rollback {
			return errFailed
		}
		_, err := tx.ExecContext(ctx, "select pg_sleep($1)", hold.Seconds())
		return err
	})
}
