package inbox

import (
	"errors"
	"time"
)

// SubscriberConfig configures a Subscriber.
type SubscriberConfig struct {
	// Schema of the tables, default DefaultSchema.
	Schema string
	// Consumer whose replayed events are emitted; required.
	Consumer string
	// PollInterval is how long at least passes between two queries, default 1 s. It bounds how long a replay waits.
	PollInterval time.Duration
	// BatchSize is how many events one query fetches at most, default 100. They are emitted one after the other.
	BatchSize int
	// BatchBytes is about how many bytes of payload one query fetches at most, default 4 MiB; one event is always fetched.
	BatchBytes int
	// CloseTimeout is how long Close, and a subscription whose context ends, waits for the message in the hands of a handler.
	// What is not answered by then has its context ended and stays parked. Default 30 s.
	CloseTimeout time.Duration
}

func (c *SubscriberConfig) setDefaults() {
	if c.PollInterval == 0 {
		c.PollInterval = time.Second
	}
	if c.BatchSize == 0 {
		c.BatchSize = 100
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = 4 << 20
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = 30 * time.Second
	}
}

// Validate names every bad field.
func (c SubscriberConfig) Validate() error {
	errs := []error{ValidateConsumer(c.Consumer), Config{Schema: c.Schema}.Validate()}
	if c.PollInterval < 0 {
		errs = append(errs, errors.New("PollInterval is negative"))
	}
	if c.BatchSize < 0 {
		errs = append(errs, errors.New("BatchSize is negative"))
	}
	if c.BatchBytes < 0 {
		errs = append(errs, errors.New("BatchBytes is negative"))
	}
	if c.CloseTimeout < 0 {
		errs = append(errs, errors.New("CloseTimeout is negative"))
	}
	return errors.Join(errs...)
}
