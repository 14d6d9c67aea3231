package forwarder_test

import (
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// A topic that does not answer, or fails again and again, and has most of the memory, is set aside after a while.
func TestATopicThatStallsDoesNotStarveOthers(t *testing.T) {
	for _, hangs := range []bool{true, false} {
		name := map[bool]string{true: "hangs", false: "fails"}[hangs]
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for time to pass
			db := testkit.Migrated(t)
			g := newGate()
			wire := &hooked{hook: func(topic string, _ *message.Message) {
				if hangs && topic == "bad" {
					g.pass()
				}
			}}
			wire.refuse = func(topic string, _ *message.Message) error {
				select {
				case <-g.opened:
				default:
					if topic == "bad" {
						return errors.New("not enough replicas")
					}
				}
				return nil
			}
			config := quick()
			config.MaxUnsettled = 400
			run(t, db, wire, config)
			t.Cleanup(g.open)
			publish(t, db, "good", firstVersions(1, 20)...)
			publish(t, db, "bad", firstVersions(1001, 3000)...)
			eventually(t, func() bool {
				order := 10_000 + scan[int](t, db, `select count(*) from millrace.outbox where topic = 'good'`)
				publish(t, db, "good", orderEvent(order, 1))
				return lanesHeld(t, db, "bad", "stalled") == 64
			}, "it is not set aside")
			eventually(t, func() bool { return pending(t, db) == 2000 }, "others wait")
			require.Zero(t, scan[int](t, db, `select count(*) from millrace.outbox_parked`))
			g.open()
			settled(t, db)
			inOrder(t, &wire.recorder)
			once(t, &wire.recorder)
			cleared(t, db)
		})
	}
}
