package outbox

import (
	"errors"
)

// OperatorConfig configures an Operator. The zero value looks at the default schema and can change nothing.
type OperatorConfig struct {
	// Schema holds the outbox tables. Default DefaultSchema.
	Schema string

	// Actor is who goes into the audit. Whatever changes something needs one.
	Actor string
}

func (c *OperatorConfig) setDefaults() {
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
}

// Validate names every bad field.
func (c OperatorConfig) Validate() error {
	c.setDefaults()
	errs := []error{validateSchema(c.Schema)}
	if !storable(c.Actor) {
		errs = append(errs, errors.New("Actor is not valid UTF-8 without NUL"))
	}
	return errors.Join(errs...)
}
