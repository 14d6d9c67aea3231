package demo

import (
	"io"

	"github.com/ThreeDotsLabs/watermill"

	"github.com/millrace-go/millrace/examples/orders"
	"github.com/millrace-go/millrace/kafka"
)

// Config says what a demo works on and what it is to do. Tables and topics are there and empty.
type Config struct {
	DatabaseURL string
	Schema      string // of outbox and inbox
	Brokers     kafka.Connection
	Topics      Topics
	Consumers   Consumers

	Operations []orders.Operation
	Relays     int
	Chaos      bool

	// Environment is what the relay processes are told beyond database, schema and brokers.
	Environment []string
	// RelayLog gets what the relays say, Logger what the handlers' side does, Say what a person should see, Progress how far
	// a stage is.
	RelayLog io.Writer
	Logger   watermill.LoggerAdapter
	Say      func(format string, args ...any)
	Progress func(stage string, done, total int)

	// Tamper changes the evidence before it is judged; for tests. Nil leaves it as it is.
	Tamper func(*Evidence)
}

// Topics are the names of the topics.
type Topics struct{ Orders, Notifications string }

// All are the topics and those of their dead letters.
func (t Topics) All() []string {
	return []string{t.Orders, t.Notifications, t.deadLetters(), t.Notifications + ".dlq"}
}

func (t Topics) deadLetters() string { return t.Orders + ".dlq" }

// Consumers are the names of the handlers, in the inbox and as consumer groups.
type Consumers struct{ Projection, Notification string }

// DefaultConsumers are the names the order service gives them.
func DefaultConsumers() Consumers {
	return Consumers{Projection: orders.ProjectionConsumer, Notification: orders.NotificationConsumer}
}

// WithPrefix puts a prefix in front of each name.
func (c Consumers) WithPrefix(prefix string) Consumers {
	return Consumers{Projection: prefix + c.Projection, Notification: prefix + c.Notification}
}

// All are the consumer groups.
func (c Consumers) All() []string { return []string{c.Projection, c.Notification} }

// Result is the verdict and what the demo itself did.
type Result struct {
	Verdict
	Orders     int // there at the end
	RolledBack int // transactions that were refused or failed, each with its event
	Retries    int // attempts of handlers that failed and were followed by another
	Killed     int // relays
}
