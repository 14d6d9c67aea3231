package cli

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/config"
	"github.com/millrace-go/millrace/internal/service"
)

// need says which services a command uses, whether the tables must be there, and whether it starts what has no address.
type need struct {
	postgres, kafka bool
	tables          bool
	start           bool
}

// services are the addresses a command works on.
type services struct {
	postgresSource, kafkaSource string
	ownPostgres, ownKafka       bool // in the state directory, rather than given by address
	stops                       []func() error
}

// services completes the addresses in c. What it starts runs until close.
func (a *app) services(ctx context.Context, c *config.Config, n need) (_ *services, err error) {
	s := &services{postgresSource: "given", kafkaSource: "given"}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	start := n.start || a.stateDir != ""
	if !n.start && a.stateDir != "" {
		if err := a.findKept(n); err != nil {
			return nil, err
		}
	}
	if n.kafka && a.kafkaKind != "embedded" && a.kafkaKind != "real" {
		return nil, usage{fmt.Errorf("--kafka %q is neither embedded nor real", a.kafkaKind)}
	}
	if !start {
		var missing []error
		if n.postgres && c.DatabaseURL == "" {
			missing = append(missing, errors.New("no PostgreSQL is given: set --database-url or MILLRACE_DATABASE_URL"))
		}
		if n.kafka && len(c.Kafka.Brokers) == 0 {
			missing = append(missing, errors.New("no Kafka is given: set --kafka-brokers or MILLRACE_KAFKA_BROKERS"))
		}
		if len(missing) > 0 {
			return nil, usage{errors.Join(append(missing, errors.New(`(or --state-dir DIR, for what "demo --keep" left there)`))...)}
		}
		return s, nil
	}
	stateDir, err := filepath.Abs(a.stateDir)
	if err != nil {
		return nil, err
	}
	if err := makeStateDir(stateDir); err != nil {
		return nil, err
	}
	if n.postgres && c.DatabaseURL == "" {
		running, err := s.join(stateDir, "postgres", func() (record, func() error, error) {
			postgres, err := service.StartPostgres(ctx, service.PostgresConfig{StateDir: stateDir})
			if err != nil {
				return record{}, nil, err
			}
			return record{Address: []string{postgres.DSN()}, Source: postgres.Source()}, postgres.Stop, nil
		})
		if err != nil {
			return nil, err
		}
		c.DatabaseURL, s.postgresSource, s.ownPostgres = running.Address[0], running.Source, true
		a.say("PostgreSQL: %s, data in %s", s.postgresSource, stateDir)
	}
	if n.kafka && len(c.Kafka.Brokers) == 0 {
		running, err := s.join(stateDir, "kafka-"+a.kafkaKind, func() (record, func() error, error) {
			kafka, err := service.StartKafka(ctx, service.KafkaConfig{StateDir: stateDir, Real: a.kafkaKind == "real"})
			if err != nil {
				return record{}, nil, err
			}
			return record{Address: kafka.Brokers(), Source: kafka.Source()}, kafka.Stop, nil
		})
		if err != nil {
			return nil, err
		}
		c.Kafka.Brokers, s.kafkaSource, s.ownKafka = running.Address, running.Source, true
		a.say("Kafka: %s, data in %s", s.kafkaSource, stateDir)
	}
	return s, nil
}

// findKept makes sure that the state directory holds what a demo kept, and finds out which broker it had.
func (a *app) findKept(n need) error {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(a.stateDir, name))
		return err == nil
	}
	embedded, real := has("kafka-embedded"), has("kafka-real")
	switch {
	case n.postgres && !has("postgres"), n.kafka && !embedded && !real:
		return usage{fmt.Errorf(`--state-dir %s: nothing there that "demo --keep" left`, a.stateDir)}
	case a.kafkaGiven || !n.kafka:
	case embedded && real:
		return usage{fmt.Errorf("--state-dir %s: has an embedded and a real broker: say which with --kafka", a.stateDir)}
	case real:
		a.kafkaKind = "real"
	}
	return nil
}

// close stops what was started.
func (s *services) close() error {
	var errs []error
	for _, stop := range slices.Backward(s.stops) {
		errs = append(errs, stop())
	}
	s.stops = nil
	return errors.Join(errs...)
}

// record says, beside a service's data, which process has it running and where it listens.
type record struct {
	PID     int      `json:"pid"`
	Address []string `json:"address"`
	Source  string   `json:"source"`
}

// join uses the service that another command has running in the state directory, or starts it.
func (s *services) join(stateDir, name string, start func() (record, func() error, error)) (record, error) {
	path := filepath.Join(stateDir, "running-"+name+".json")
	if content, err := os.ReadFile(path); err == nil { //nolint:gosec // the operator names the directory
		var r record
		if json.Unmarshal(content, &r) == nil && r.PID > 0 && len(r.Address) > 0 && service.Alive(r.PID) {
			return r, nil
		}
	}
	r, stop, err := start()
	if err != nil {
		return record{}, fmt.Errorf("start %s: %w", name, err)
	}
	s.stops = append(s.stops, stop)
	r.PID = os.Getpid()
	content, err := json.Marshal(r)
	if err != nil {
		return record{}, err
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return record{}, err
	}
	s.stops = append(s.stops, func() error {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	return r, nil
}

// prepare loads the configuration and completes the addresses.
func (a *app) prepare(cmd *cobra.Command, n need) (config.Config, *services, error) {
	c, _, err := a.load(cmd)
	if err != nil {
		return config.Config{}, nil, err
	}
	s, err := a.services(cmd.Context(), &c, n)
	return c, s, err
}

// withDatabase calls f with the configuration, the services and an open database, and closes them after it.
func (a *app) withDatabase(
	cmd *cobra.Command, n need, f func(ctx context.Context, db *sql.DB, c config.Config, s *services) error,
) (err error) {
	ctx := cmd.Context()
	c, s, err := a.prepare(cmd, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	open := openDatabase
	if n.tables {
		open = func(ctx context.Context, address string) (*sql.DB, error) {
			return openMigrated(ctx, address, c.Schema)
		}
	}
	db, err := open(ctx, c.DatabaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return f(ctx, db, c, s)
}
