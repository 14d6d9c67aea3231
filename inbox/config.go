package inbox

import (
	"fmt"
	"regexp"
)

// DefaultSchema is the schema the tables are in unless Config says otherwise.
const DefaultSchema = "millrace"

// schemaPattern allows names that PostgreSQL neither folds nor cuts, as the outbox and the migrations do.
var schemaPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Config says where the inbox is.
type Config struct {
	// Schema of the tables, default DefaultSchema: lower-case letters, digits and underscores, at most 63.
	Schema string
}

func (c *Config) setDefaults() {
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
}

// Validate names every bad field.
func (c Config) Validate() error {
	c.setDefaults()
	if !schemaPattern.MatchString(c.Schema) {
		return fmt.Errorf("Schema %q does not match %s", c.Schema, schemaPattern)
	}
	return nil
}
