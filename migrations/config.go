package migrations

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	// DefaultSchema is the PostgreSQL schema of the tables unless Config names another.
	DefaultSchema = "millrace"
	// DefaultShards is the number of shards a new outbox gets unless Config says otherwise.
	DefaultShards = 64
	// MaxShards is the highest number of shards.
	MaxShards = 1024
)

var schemaPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Config says where the tables go. The zero value is ready to use.
type Config struct {
	// Schema is the PostgreSQL schema of all tables, created when it is missing. Default DefaultSchema. Lower-case letters,
	// digits and underscores, at most 63 bytes: names that PostgreSQL neither folds nor cuts.
	Schema string

	// Shards is how many shards the outbox is divided into, 1 to MaxShards. Default DefaultShards. A shard is the unit that
	// relays share out among themselves, so it bounds how many relays can work at once; every shard costs a relay a little on
	// each poll. It is fixed by the first migration: 0 later accepts what the database has, any other number must equal it.
	Shards int
}

// Validate names every bad field.
func (c Config) Validate() error {
	c.setDefaults()
	var errs []error
	if !schemaPattern.MatchString(c.Schema) {
		errs = append(errs, fmt.Errorf("Schema %q does not match %s", c.Schema, schemaPattern))
	}
	if c.Shards < 1 || c.Shards > MaxShards {
		errs = append(errs, fmt.Errorf("Shards %d is not between 1 and %d", c.Shards, MaxShards))
	}
	return errors.Join(errs...)
}

func (c *Config) setDefaults() {
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if c.Shards == 0 {
		c.Shards = DefaultShards
	}
}

// schema is a validated name, so quoting it cannot fail; the quotes make reserved words usable.
func (c Config) quotedSchema() string { return `"` + c.Schema + `"` }

// substitute fills the placeholders of an SQL file.
func (c Config) substitute(sql string) string {
	return strings.NewReplacer("{{schema}}", c.quotedSchema(), "{{shards}}", strconv.Itoa(c.Shards)).Replace(sql)
}
