package forwarder_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// The publisher hangs for longer than the lease lasts, another relay takes over and sends: the first settles nothing, waits
// for its results and starts over.
func TestRelayThatLostItsLeaseWithWorkInFlightSettlesNothing(t *testing.T) {
	db := testkit.Migrated(t)
	for version := 1; version <= 40; version++ {
		publish(t, db, "orders", orderEvent(1, version), orderEvent(2, version))
	}
	wire := &lanes{}
	reached, proceed := make(chan struct{}), make(chan struct{})
	calls := 0
	hanging := &lanes{before: func([]*message.Message) {
		if calls++; calls == 2 {
			close(reached)
			<-proceed
		}
	}}
	hanging.forward = wire
	config := short()
	config.BatchSize, config.MaxInFlight = 10, 3
	first := run(t, db, hanging, config)
	<-reached
	execute(t, db, `update millrace.outbox_relay set lease_until = millrace.clock() - interval '1 s'`)
	second := run(t, db, wire, config)
	settled(t, db)
	sent := first.Stats().Sent
	eventually(t, func() bool { return sent+second.Stats().Sent == 80 }, "receipts are not counted")
	require.Positive(t, second.Stats().Takeovers)
	close(proceed)

	eventually(t, func() bool { return first.Stats().Fenced > 0 }, "what came back late is refused")
	sharing(t, db, 32, 32)
	require.Equal(t, sent, first.Stats().Sent)
	require.Equal(t, 80, inOrder(t, &wire.recorder))
	require.Greater(t, len(wire.ids()), 80, "the batch that hung was sent twice")
	require.Equal(t, 80, receipts(t, db))
	for version := 41; version <= 45; version++ {
		publish(t, db, "orders", orderEvent(1, version), orderEvent(2, version))
	}
	settled(t, db)
	require.Equal(t, 90, inOrder(t, &wire.recorder))
}
