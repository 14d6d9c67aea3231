package service

import (
	"context"
	"fmt"
	"path/filepath"
)

type kind string

const (
	kindPostgres      kind = "postgres"
	kindEmbeddedKafka kind = "kafka-embedded"
	kindRealKafka     kind = "kafka-real"
)

// spec is what a parent asks its supervisor for, passed as JSON in the environment variable specVariable.
type spec struct {
	Kind      kind
	StateDir  string
	CacheDir  string
	Version   string            `json:",omitempty"`
	Settings  map[string]string `json:",omitempty"`
	Temporary bool              `json:",omitempty"`
}

// report is the one line a supervisor prints: where the service listens, or why it does not.
type report struct {
	Address string `json:",omitempty"`
	Source  string `json:",omitempty"`
	PID     int    `json:",omitempty"`
	Error   string `json:",omitempty"`
	InUse   bool   `json:",omitempty"`
}

// dir is the service's own part of the state directory.
func (s spec) dir() string { return filepath.Join(s.StateDir, string(s.Kind)) }

// path is a file in the service's own part of the state directory.
func (s spec) path(name string) string { return filepath.Join(s.dir(), name) }

// start starts the service in this process or as its child and returns how to stop it.
func (s spec) start(ctx context.Context) (report, func() error, error) {
	switch s.Kind {
	case kindPostgres:
		return startPostgresServer(ctx, s)
	case kindEmbeddedKafka:
		return startEmbeddedKafka(s)
	case kindRealKafka:
		return startRealKafka(ctx, s)
	}
	return report{}, nil, fmt.Errorf("unknown service %q", s.Kind)
}
