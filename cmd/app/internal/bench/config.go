package bench

import (
	"database/sql"
	"io"

	"github.com/millrace-go/millrace/kafka"
)

// Config says where to measure and how much.
type Config struct {
	// DatabaseURL is a database on the server; another one is made beside it, used, and dropped. DB is a pool on it.
	DatabaseURL string
	DB          *sql.DB
	Brokers     kafka.Connection
	Events      int

	// Environment is what the relay process is told beyond database, schema and brokers; RelayLog gets what it says.
	Environment []string
	RelayLog    io.Writer
	Progress    func(stage string, done, total int)
}

// Figures are what was measured.
type Figures struct {
	Events  int
	Seconds float64 // from the first append of the relay's records to the last, by the broker's clock

	// EventsPerSecond and LimitPerSecond leave out what came with the very first append, which took no time.
	EventsPerSecond float64
	LimitPerSecond  float64 // of a plain producer: same records, acks=all, idempotent, asynchronous

	// P50Milliseconds and P99Milliseconds are from the return of a commit until a consumer has the event, one at a time.
	P50Milliseconds float64
	P99Milliseconds float64

	// RSSMiB, at its largest, and CPUSeconds are of the relay process that drains the events, over its whole life. RSSMiB is
	// 0 where the system does not tell.
	RSSMiB     float64
	CPUSeconds float64

	IdleQueriesPerSecond float64 // of a relay that has nothing to do

	Lost, Duplicated, Reordered int
}

// What the events are like.
const (
	aggregates   = 1000
	partitions   = 6
	payloadBytes = 300
)
