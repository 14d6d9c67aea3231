package cli

import (
	"os"
	"runtime/debug"

	"github.com/millrace-go/millrace/config"
)

const (
	relayGCPercent = 400
	relayHeapBytes = 80 << 20 // besides the events in memory
)

// tuneMemory trades memory, of which a relay needs little, for a tenth of its processor time. GOGC and GOMEMLIMIT, where set,
// stand.
func tuneMemory(c config.Config) {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(relayGCPercent)
		debug.SetMemoryLimit(relayHeapBytes + int64(c.Relay.MaxUnsettledBytes))
	}
}
