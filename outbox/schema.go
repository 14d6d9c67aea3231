package outbox

import (
	"fmt"
	"regexp"
	"strings"
)

// DefaultSchema is the PostgreSQL schema of the outbox tables unless a Config names another.
const DefaultSchema = "millrace"

var schemaPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// validateSchema allows names that PostgreSQL neither folds nor cuts, so that a name always means the schema it spells.
func validateSchema(schema string) error {
	if !schemaPattern.MatchString(schema) {
		return fmt.Errorf("Schema %q does not match %s", schema, schemaPattern)
	}
	return nil
}

func quoteIdentifier(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// loadSQL names the schema, and the columns of an event, in an embedded statement.
func loadSQL(raw, schema string) string {
	return strings.NewReplacer("{{schema}}", quoteIdentifier(schema), "{{event}}", eventColumns).Replace(raw)
}
