package service

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PostgresConfig says which PostgreSQL to start and where its data lives. The zero value starts the newest one found
// on this machine in DefaultStateDir.
type PostgresConfig struct {
	// StateDir holds the data, the logs and the port, so that a later start on the same directory continues with the
	// same data on the same address. Default: DefaultStateDir().
	StateDir string

	// Version is the major version wanted, "14" to "18". Default: the version of the data kept in StateDir, else the
	// one on PATH or under /usr/lib/postgresql, else the newest that can be downloaded. A version that is not
	// installed is downloaded once and kept in the user's cache directory.
	Version string

	// Settings are run-time parameters that go before the defaults of this package, "max_connections" for instance.
	// A value may not contain quotes, backslashes, '$' or '`': it passes through a shell.
	Settings map[string]string

	// Temporary removes StateDir once the server has stopped, also when the parent process was killed.
	Temporary bool
}

func (c *PostgresConfig) setDefaults() {
	if c.StateDir == "" {
		c.StateDir = DefaultStateDir()
	}
}

// Validate names every field that can not work.
func (c PostgresConfig) Validate() error {
	var errs []error
	if _, known := downloads[c.Version]; c.Version != "" && !known {
		errs = append(errs, fmt.Errorf("Version: %q is none of %s", c.Version, strings.Join(slices.Sorted(maps.Keys(downloads)), ", ")))
	}
	for name, value := range c.Settings {
		if strings.ContainsAny(name+value, "\"'`$\\\n") {
			errs = append(errs, fmt.Errorf("Settings: %s has a quote, backslash, '$', '`' or newline", name))
		}
	}
	return errors.Join(errs...)
}
