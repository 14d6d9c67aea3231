package outbox

import (
	"errors"
	"fmt"
)

const (
	// DefaultMaxRecordBytes leaves room below the 1,048,588 bytes a Kafka broker accepts by default for the headers a dead
	// letter adds.
	DefaultMaxRecordBytes = 1_000_000

	// DefaultMaxRows also bounds how many different statements a driver that prepares them has to remember.
	DefaultMaxRows = 100

	// maxRows keeps a statement below PostgreSQL's 65,535 parameters.
	maxRows = 65_535 / columnCount
)

// PublisherConfig configures the writing of events. The zero value is ready for production.
type PublisherConfig struct {
	// Schema holds the outbox tables. Default DefaultSchema.
	Schema string

	// MaxRecordBytes is the largest event that is accepted: key, payload, headers and Kafka's framing together. A larger one
	// is refused while its business transaction can still do something about it. Default DefaultMaxRecordBytes; raise it
	// together with the topics' max.message.bytes, never above it.
	MaxRecordBytes int

	// MaxRows is how many events one INSERT writes; longer lists take several. Default DefaultMaxRows, at most 5461. More
	// saves round trips when very many events are written at once.
	MaxRows int
}

func (c *PublisherConfig) setDefaults() {
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if c.MaxRecordBytes == 0 {
		c.MaxRecordBytes = DefaultMaxRecordBytes
	}
	if c.MaxRows == 0 {
		c.MaxRows = DefaultMaxRows
	}
}

// Validate names every bad field.
func (c PublisherConfig) Validate() error {
	c.setDefaults()
	errs := []error{validateSchema(c.Schema)}
	if c.MaxRecordBytes < 1 {
		errs = append(errs, fmt.Errorf("MaxRecordBytes %d is not positive", c.MaxRecordBytes))
	}
	if c.MaxRows < 1 || c.MaxRows > maxRows {
		errs = append(errs, fmt.Errorf("MaxRows %d is not between 1 and %d", c.MaxRows, maxRows))
	}
	return errors.Join(errs...)
}
