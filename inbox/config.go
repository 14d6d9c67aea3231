package inbox

import (
	"errors"
	"fmt"
	"strings"
)

// DefaultSchema is the schema the tables are in unless Config says otherwise.
const DefaultSchema = "millrace"

const maxSchemaLength = 63 // PostgreSQL cuts longer names silently

// Config says where the inbox is.
type Config struct {
	// Schema of the tables, default DefaultSchema.
	Schema string
}

func (c *Config) setDefaults() {
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
}

// Validate names every bad field.
func (c Config) Validate() error {
	var errs []error
	if len(c.Schema) > maxSchemaLength {
		errs = append(errs, fmt.Errorf("Schema is %d bytes long, PostgreSQL's limit is %d", len(c.Schema), maxSchemaLength))
	}
	if strings.ContainsRune(c.Schema, 0) {
		errs = append(errs, errors.New("Schema contains a NUL character"))
	}
	return errors.Join(errs...)
}
