package forwarder_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

// While the broker is away the relay neither gives up nor floods the log.
func TestOutageIsLoggedWhenItBeginsAndWhenItEnds(t *testing.T) {
	db := testkit.Migrated(t)
	broker := &recorder{refuse: func(string, *message.Message) error { return errors.New("broker is away") }}
	log := &logged{}
	config := quick()
	runLogged(t, db, broker, newConfig(config), log)
	publish(t, db, "orders", orderEvent(1, 1))
	outage := func(line string) (n int) {
		for _, l := range log.all() {
			if l == line {
				n++
			}
		}
		return n
	}
	const begins = "Events could not be sent; trying again until they can: broker is away"
	eventually(t, func() bool { return outage(begins) == 1 }, "not logged")
	require.Never(t, func() bool { return outage(begins) > 1 }, 300*time.Millisecond, instant)
	broker.set(nil)
	settled(t, db)
	eventually(t, func() bool { return outage("Events are being sent again") == 1 }, "not logged")
	for _, line := range log.all() {
		require.NotContains(t, line, "version", "a payload")
	}
}
