package outbox

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

func TestAnObservationFallsIntoTheFirstBucketThatHoldsIt(t *testing.T) {
	h := newHistogram([]float64{1, 10})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 100 {
				for _, value := range []float64{0, 1, 1.5, 10, 11} {
					h.observe(value)
				}
			}
		})
	}
	writers.Wait()
	s := h.snapshot()
	require.Equal(t, []uint64{800, 800, 400}, s.Counts)
	require.EqualValues(t, 2000, s.Count())
	require.InDelta(t, 400*23.5, s.Sum, 1e-6)
}

// deaf is a logger that takes a message and does not return.
type deaf struct {
	watermill.NopLogger
	heard, release chan struct{}
}

func (d deaf) Info(string, watermill.LogFields) {
	select {
	case d.heard <- struct{}{}:
	default:
	}
	<-d.release
}
func (d deaf) With(watermill.LogFields) watermill.LoggerAdapter { return d }

func TestALoopThatStandsStillIsNotAlive(t *testing.T) {
	db := testkit.Migrated(t)
	logger := deaf{heard: make(chan struct{}, 1), release: make(chan struct{})}
	s, err := NewSubscriber(db, SubscriberConfig{}, logger)
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, s.stillFor)
	s.stillFor = 3 * time.Second // more than the second for which an idle loop waits
	require.True(t, s.Stats().Alive, "not yet subscribed")
	_, err = s.Subscribe(t.Context(), "outbox")
	require.NoError(t, err)
	<-logger.heard // of the claim, in the loop
	require.Eventually(t, func() bool { return !s.Stats().Alive }, 10*time.Second, 10*time.Millisecond)
	close(logger.release)
	require.Eventually(t, func() bool { return s.Stats().Alive }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, s.Close())
	require.True(t, s.Stats().Alive, "it has ended")
}

// A database that does not answer is waited for, which is no standstill.
func TestALoopThatWaitsForTheDatabaseIsAlive(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	cut := testkit.Open(t, "postgres", dsn)
	s, err := NewSubscriber(cut, SubscriberConfig{Lease: 500 * time.Millisecond, MaxBackoff: 100 * time.Millisecond}, nil)
	require.NoError(t, err)
	s.stillFor = 4 * time.Second
	_, err = s.Subscribe(context.Background(), "outbox")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.Stats().Registered }, 10*time.Second, 10*time.Millisecond)
	run(t, db, `update millrace.outbox_relay set lease_until = millrace.clock()`)
	require.NoError(t, cut.Close())
	require.Eventually(t, func() bool { return !s.Stats().Registered && s.Stats().LeaseLosses > 0 }, 10*time.Second, 10*time.Millisecond)
	errors := s.Stats().DatabaseErrors
	require.Eventually(t, func() bool {
		require.True(t, s.Stats().Alive)
		return s.Stats().DatabaseErrors > errors+30 // for some seconds
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, s.Close())
	require.Equal(t, Stats{}.Shards, s.Stats().Shards)
}
