package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
)

// Writers compete for twenty orders while two relays send and a consumer handles keys side by side: each order's versions
// reach the topic, on one partition, and take effect in their order.
func TestOrderPerKeyIsKeptOnTheWireAndInEffect(t *testing.T) {
	const orders, versions, writers = 20, 20, 8
	s := newSystem(t, 3)
	consumer := s.name("projection")
	for range 2 {
		config := quick()
		config.BatchSize = 7
		s.relay(s.producer(kafka.PublisherConfig{ChunkSize: 5}), config)
	}
	s.consume(consumer, s.topic, apply(consumer))

	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			r := rand.New(rand.NewPCG(uint64(writer), 2))
			for range orders * versions / writers {
				if err := s.change(fmt.Sprintf("order-%d", r.IntN(orders))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	published := s.column("select event_id from millrace.outbox")
	s.awaitEffects(consumer, published...)
	requireAscending(t, s.effects(consumer))

	places := map[string]int32{}
	ids := []string{}
	for _, record := range testkit.ReadTopic(t, s.topic) {
		key := string(record.Key)
		if _, seen := places[key]; !seen {
			places[key] = record.Partition
		}
		require.Equal(t, places[key], record.Partition, "one partition per key")
		ids = append(ids, header(record, event.IDKey))
	}
	requireAscending(t, ids)
}

// change makes the next version of an order, whoever competes for it.
func (s *system) change(order string) error {
	return outbox.InTx(context.Background(), s.db, func(ctx context.Context, tx *sql.Tx) error {
		version, err := outbox.NextVersion(ctx, tx, "order", order)
		if err != nil {
			return err
		}
		return s.outbox.Publish(s.topic, event.InTx(ctx, orderEvent(order, int(version)), tx))
	})
}

// requireAscending says that the first occurrences of each order's versions are 1, 2, 3 and so on.
func requireAscending(t *testing.T, ids []string) {
	t.Helper()
	last := map[string]int{}
	for _, id := range ids {
		order, number, _ := strings.Cut(id, "-v")
		version, err := strconv.Atoi(number)
		require.NoError(t, err)
		if version > last[order] { // else a later copy of one that was seen
			require.Equal(t, last[order]+1, version, id)
			last[order] = version
		}
	}
}
