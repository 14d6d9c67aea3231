package metrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/outbox"
)

// OutboxConfig configures an OutboxCollector. The zero value is ready for use.
type OutboxConfig struct {
	// Schema holds the outbox tables. Default outbox.DefaultSchema.
	Schema string

	// Timeout bounds what one scrape asks the database; what it has not answered by then is missing from the scrape. Default 2 s.
	Timeout time.Duration

	// MaxTopics is how many held topics are named at most, those held longest first. Default 50.
	MaxTopics int
}

func (c *OutboxConfig) setDefaults() {
	if c.Schema == "" {
		c.Schema = outbox.DefaultSchema
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	if c.MaxTopics == 0 {
		c.MaxTopics = 50
	}
}

// Validate names every bad field.
func (c OutboxConfig) Validate() error {
	c.setDefaults()
	var errs []error
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("Timeout %s is negative", c.Timeout))
	}
	if c.MaxTopics < 0 {
		errs = append(errs, fmt.Errorf("MaxTopics %d is negative", c.MaxTopics))
	}
	return errors.Join(errs...)
}
