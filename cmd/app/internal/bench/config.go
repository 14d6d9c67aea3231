package bench

import (
	"database/sql"
	"io"
	"time"

	"github.com/millrace-go/millrace/kafka"
)

// Config says where to measure and how much.
type Config struct {
	// DatabaseURL is a database on the server; another one is made beside it, used, and dropped. DB is a pool on it.
	DatabaseURL string
	DB          *sql.DB
	Brokers     kafka.Connection
	Events      int

	// HoldTransaction keeps a foreign transaction with a transaction id open from before the first event to the end.
	HoldTransaction bool
	// Rate is events a second where they are written at a pace.
	Rate float64
	// Sustained is for how long Sustained writes.
	Sustained time.Duration

	// Environment is what the relay process is told beyond database, schema and brokers; RelayLog gets what it says.
	Environment []string
	RelayLog    io.Writer
	Progress    func(stage string, done, total int)
}

// What the events are like.
const (
	manyAggregates = 1000
	partitions     = 6
	payloadBytes   = 300
)
