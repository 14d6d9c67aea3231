package migrations

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
)

// SQL returns everything Up would do on an empty database as one script, for teams that apply DDL with a tool of their own.
// It is to run once, in one transaction (psql -1 -v ON_ERROR_STOP=1 -f FILE). It fills the version table as well, so that
// a later Up applies only what is newer.
func SQL(config Config) (string, error) {
	if err := config.Validate(); err != nil {
		return "", fmt.Errorf("migrations: sql: %w", err)
	}
	config.setDefaults()
	names, err := fs.Glob(scripts{config}, "*.sql")
	if err != nil {
		return "", fmt.Errorf("migrations: sql: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- Run once, in one transaction.\n\ncreate schema if not exists %s;\n\n", config.quotedSchema())
	b.WriteString(config.substitute(versionTableSQL))
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return "", fmt.Errorf("migrations: sql: %w", err)
		}
		raw, err := fs.ReadFile(scripts{config}, name)
		if err != nil {
			return "", fmt.Errorf("migrations: sql: %w", err)
		}
		header, body, _ := strings.Cut(string(raw), "-- +goose Up\n")
		body, _, _ = strings.Cut(body, "-- +goose Down\n")
		body = strings.NewReplacer("-- +goose StatementBegin\n", "", "-- +goose StatementEnd\n", "").Replace(body)
		fmt.Fprintf(&b, "\n%s%s\n\n", header, strings.TrimSpace(body))
		fmt.Fprintf(&b, config.substitute("insert into {{schema}}.schema_version (version_id, is_applied) values (%d, true);\n"), version)
	}
	return b.String(), nil
}
