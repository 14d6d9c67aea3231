package doctor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
)

// What a database role is for.
const (
	ForRelay    = "relay"
	ForWriter   = "writer"
	ForConsumer = "consumer"
	ForOperator = "operator"
)

// Purposes are all that a database role can be for.
var Purposes = []string{ForRelay, ForWriter, ForConsumer, ForOperator}

// Config says what is expected.
type Config struct {
	// Schema holds the tables. Default "millrace".
	Schema string

	// Publisher is what the relay sends with.
	Publisher kafka.PublisherConfig

	// DirectURL is where the relay listens for new events. Default: it does not.
	DirectURL string

	// ListenElsewhere says that DirectURL is not the address of Services.DB.
	ListenElsewhere bool

	// For is what the connected role is for, some of Purposes: what it may not do of that is a failure. Default ForRelay.
	For []string

	// Topics are looked at beside those that the outbox has events for.
	Topics []string

	// LongTransaction is how long a transaction may hold the horizon back before it is a warning. Default 5 min.
	LongTransaction time.Duration

	// Timeout bounds each check. Default 5 s.
	Timeout time.Duration
}

func (c *Config) setDefaults() {
	if c.Schema == "" {
		c.Schema = "millrace"
	}
	if len(c.For) == 0 {
		c.For = []string{ForRelay}
	}
	if c.LongTransaction == 0 {
		c.LongTransaction = 5 * time.Minute
	}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Publisher.Partitioner == "" {
		c.Publisher.Partitioner = kafka.PartitionerJava
	}
	if c.Publisher.Compression == "" {
		c.Publisher.Compression = kafka.CompressionNone
	}
	if c.Publisher.MaxMessageBytes == 0 {
		c.Publisher.MaxMessageBytes = kafka.DefaultMaxMessageBytes
	}
}

// Validate names every bad field of those that people fill in.
func (c Config) Validate() error {
	c.setDefaults()
	var errs []error
	for _, purpose := range c.For {
		if !slices.Contains(Purposes, purpose) {
			errs = append(errs, fmt.Errorf("For: %q is none of relay, writer, consumer and operator", purpose))
		}
	}
	for _, topic := range c.Topics {
		if err := event.ValidateTopic(topic); err != nil {
			errs = append(errs, fmt.Errorf("Topics: %w", err))
		}
	}
	if c.LongTransaction < 0 {
		errs = append(errs, fmt.Errorf("LongTransaction: %s is negative", c.LongTransaction))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("Timeout: %s is negative", c.Timeout))
	}
	return errors.Join(errs...)
}
