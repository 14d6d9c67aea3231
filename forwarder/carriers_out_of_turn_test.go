package forwarder_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
)

// The router runs every carrier message in a goroutine of its own: batches reach the publisher in the order they were read
// in all the same.
func TestBatchesOvertakingEachOtherOnTheRouterDoNotReorderEvents(t *testing.T) {
	both(t, func(t *testing.T, publisher message.Publisher, wire *recorder) {
		db := testkit.Migrated(t)
		const versions = 300
		for version := 1; version <= versions; version++ {
			publish(t, db, "orders", orderEvent(1, version))
		}
		router := newRouter(t)
		var carriers atomic.Int64
		router.AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				// Of eight carriers on their way the first is held up longest.
				late := time.NewTimer(time.Duration(8-carriers.Add(1)%8) * 2 * time.Millisecond)
				<-late.C
				return h(msg)
			}
		})
		config := forwarder.Config{Outbox: quick(), Router: router}
		config.Outbox.BatchSize, config.Outbox.MaxInFlight = 3, 8
		_, err := forwarder.NewForwarder(db, publisher, config, nil)
		require.NoError(t, err)
		runRouter(t, router)
		settled(t, db)
		require.Equal(t, versions, inOrder(t, wire))
		once(t, wire)
		require.GreaterOrEqual(t, carriers.Load(), int64(versions/3))
	})
}

// newRouter is a router as a user has it.
func newRouter(t *testing.T) *message.Router {
	t.Helper()
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	require.NoError(t, err)
	return router
}

func runRouter(t *testing.T, router *message.Router) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	<-router.Running()
	t.Cleanup(func() {
		require.NoError(t, router.Close())
		require.NoError(t, <-ended)
	})
}

// One piece of this project on a router that has handlers of its own: the router starts and stops it.
func TestForwarderOnTheUsersOwnRouterSettlesBeforeTheRouterHasClosed(t *testing.T) {
	db := testkit.Migrated(t)
	wire := &lanes{}
	router := newRouter(t)
	f, err := forwarder.NewForwarder(db, wire, forwarder.Config{Outbox: quick(), Router: router}, nil)
	require.NoError(t, err)
	for order := range 100 {
		publish(t, db, fmt.Sprintf("orders-%d", order%3), orderEvent(order, 1))
	}
	var reached atomic.Bool
	wire.before = func([]*message.Message) { reached.Store(true) }
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	eventually(t, reached.Load, "nothing is sent")
	require.NoError(t, router.Close())
	require.NoError(t, <-ended)
	require.NoError(t, f.Close())
	require.Equal(t, len(wire.ids()), receipts(t, db), "what was sent has its receipt")
	require.Zero(t, scan[int](t, db, `select count(*) from millrace.outbox_relay`), "the relay has left")
	require.Zero(t, scan[int](t, db, `select count(*) from millrace.outbox_shard where relay_id is not null`), "and given its shards back")
}
