package forwarder_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

// randomWriters commits and rolls back transactions at random: some take their transaction id early, some hold it for two
// seconds, some use savepoints and roll one back. It returns the ids of what was committed.
func randomWriters(t *testing.T, db *sql.DB, writers, transactions int) map[string]bool {
	t.Helper()
	committed := map[string]bool{}
	var mu sync.Mutex
	var working sync.WaitGroup
	var next atomic.Int64
	for w := range writers {
		working.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			pause := func(most time.Duration) {
				hold := time.NewTimer(time.Duration(r.Int64N(int64(most))))
				<-hold.C
			}
			for range transactions {
				tx, err := db.BeginTx(context.Background(), nil)
				if !nil1(t, err) {
					return
				}
				if r.IntN(3) == 0 {
					_, err = tx.Exec("select pg_current_xact_id()")
					nil1(t, err)
					pause(60 * time.Millisecond)
				}
				var ids []string
				for range 1 + r.IntN(3) {
					n := next.Add(1)
					id := fmt.Sprintf("event-%d", n)
					savepoint, back := r.IntN(4) == 0, false
					if savepoint {
						_, err = tx.Exec("savepoint s")
						nil1(t, err)
					}
					_, err = tx.Exec(`insert into millrace.outbox (event_id, topic, partition_key) values ($1, $2, $3)`,
						id, fmt.Sprintf("topic-%d", n%3), fmt.Sprintf("key-%d", n%97))
					nil1(t, err)
					if savepoint && r.IntN(3) == 0 {
						_, err = tx.Exec("rollback to savepoint s")
						nil1(t, err)
						back = true
					}
					if !back {
						ids = append(ids, id)
					}
					if r.IntN(3) == 0 {
						pause(80 * time.Millisecond)
					}
				}
				if r.IntN(50) == 0 {
					pause(2 * time.Second)
				}
				if r.IntN(10) == 0 {
					nil1(t, tx.Rollback())
					continue
				}
				if !nil1(t, tx.Commit()) {
					return
				}
				mu.Lock()
				for _, id := range ids {
					committed[id] = true
				}
				mu.Unlock()
			}
		})
	}
	working.Wait()
	return committed
}

func nil1(t *testing.T, err error) bool {
	if err != nil {
		t.Errorf("writer: %v", err)
	}
	return err == nil
}

func TestLateCommitsAreReadExactlyOnce(t *testing.T) {
	db := testkit.Migrated(t)
	db.SetMaxOpenConns(80)
	broker := &recorder{}
	f := newForwarder(t, db, broker, forwarder.Config{Outbox: outbox.SubscriberConfig{PollInterval: 20 * time.Millisecond}})
	go func() {
		if err := f.Run(context.Background()); err != nil {
			t.Errorf("forwarder: %v", err)
		}
	}()
	<-f.Running()

	committed := randomWriters(t, db, 40, 40)
	require.Eventually(t, func() bool { return pending(t, db) == 0 }, 30*time.Second, 50*time.Millisecond)
	require.NoError(t, f.Close())

	seen := map[string]int{}
	for _, id := range broker.ids() {
		seen[id]++
	}
	for id := range committed {
		require.Equal(t, 1, seen[id], "event %s", id)
	}
	require.Len(t, seen, len(committed), "nothing else")
	stats := f.Stats()
	require.NotZero(t, stats.Late, "the writers' transactions committed out of order")
	require.Zero(t, stats.Swept)
	require.Zero(t, stats.Fenced)
}

// Three relays, of which one after another is replaced: everything arrives, and no key's first occurrences are out of order.
func TestRelaysComingAndGoingLoseAndReorderNothing(t *testing.T) {
	db := testkit.Migrated(t)
	db.SetMaxOpenConns(60)
	broker := &recorder{}
	start := func() *forwarder.Forwarder {
		f, err := forwarder.NewForwarder(db, broker, forwarder.Config{
			Outbox: outbox.SubscriberConfig{Lease: time.Second, PollInterval: 20 * time.Millisecond, BatchSize: 7},
		}, nil)
		require.NoError(t, err)
		go func() {
			if err := f.Run(context.Background()); err != nil {
				t.Errorf("forwarder: %v", err)
			}
		}()
		<-f.Running()
		return f
	}
	relays := []*forwarder.Forwarder{start(), start(), start()}
	const keys, versions = 50, 60
	for version := 1; version <= versions; version++ {
		for key := range keys {
			publish(t, db, "orders", orderEvent(key, version))
		}
		if version%15 == 0 {
			require.NoError(t, relays[0].Close())
			relays = append(relays[1:], start())
		}
	}
	require.Eventually(t, func() bool { return pending(t, db) == 0 }, 30*time.Second, 50*time.Millisecond)
	for _, f := range relays {
		require.NoError(t, f.Close())
	}
	last := map[string]int64{}
	seen := map[string]bool{}
	for _, msg := range broker.got {
		e, err := event.Parse(msg)
		require.NoError(t, err)
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		require.Equal(t, last[e.AggregateID]+1, e.AggregateVersion, "key %s", e.AggregateID)
		last[e.AggregateID] = e.AggregateVersion
	}
	require.Len(t, seen, keys*versions)
	require.True(t, strings.HasPrefix(broker.ids()[0], "order-"))
}
