package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/internal/service"
)

// stage is what all turns share.
type stage struct {
	options  options
	dir      string // for everything but the services' data
	database string
	db       *sql.DB
	brokers  []string
	client   *kgo.Client
	say      func(format string, args ...any)
}

// compare runs the comparison. It starts the services and stops them, and leaves nothing behind.
func compare(ctx context.Context, o options, say func(format string, args ...any)) (r results, err error) {
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return results{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &stage{options: o, dir: dir, say: say}
	contenders, err := s.contenders(ctx)
	if err != nil {
		return results{}, err
	}
	postgresDir, kafkaDir, err := serviceDirs()
	if err != nil {
		return results{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(postgresDir), os.RemoveAll(kafkaDir)) }()
	postgres, err := service.StartPostgres(ctx, service.PostgresConfig{
		StateDir: postgresDir, Temporary: true, Settings: map[string]string{"wal_level": "logical"},
	})
	if err != nil {
		return results{}, err
	}
	defer func() { err = errors.Join(err, postgres.Stop()) }()
	kafka, err := service.StartKafka(ctx, service.KafkaConfig{StateDir: kafkaDir, Temporary: true, Real: !o.embedded})
	if err != nil {
		return results{}, err
	}
	defer func() { err = errors.Join(err, kafka.Stop()) }()
	say("PostgreSQL: %s\nKafka: %s", postgres.Source(), kafka.Source())

	s.database, s.brokers = postgres.DSN(), kafka.Brokers()
	if s.db, err = sql.Open("postgres", s.database); err != nil {
		return results{}, err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	if s.client, err = kgo.NewClient(kgo.SeedBrokers(s.brokers...)); err != nil {
		return results{}, err
	}
	defer s.client.Close()
	r = results{
		Postgres: postgres.Source(), Kafka: kafka.Source(),
		Payload: payloadBytes, Aggregates: aggregates, Partitions: partitions, Runs: o.runs,
	}
	err = s.turns(ctx, contenders, &r)
	return r, err
}

// serviceDirs makes a directory for each service. PostgreSQL's is to be given to another user where root runs this.
func serviceDirs() (postgres, kafka string, err error) {
	if postgres, err = os.MkdirTemp("", "millrace-bench-postgres-"); err != nil {
		return "", "", err
	}
	kafka, err = os.MkdirTemp("", "millrace-bench-kafka-")
	if err != nil {
		return "", "", errors.Join(err, os.Remove(postgres))
	}
	return postgres, kafka, nil
}

// contenders are those asked for, ready to take turns.
func (s *stage) contenders(ctx context.Context) ([]contender, error) {
	var all []contender
	var jars string
	for _, name := range s.options.contenders {
		var err error
		switch name {
		case nameMillrace:
			binary := filepath.Join(s.dir, "millrace")
			err = buildMillrace(ctx, binary)
			all = append(all, millrace{binary})
		case nameStock, nameStockTuned:
			all = append(all, stock{tuned: name == nameStockTuned})
		case nameDebezium, nameDebeziumTuned:
			if jars == "" {
				jars, err = debeziumJars(ctx, s.say)
			}
			all = append(all, debezium{jars: jars, tuned: name == nameDebeziumTuned})
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// turns has everybody take turns. In each run somebody else begins; the plain producer goes ahead of all.
func (s *stage) turns(ctx context.Context, contenders []contender, r *results) error {
	all := make([][]figures, len(contenders))
	for run := 1; run <= s.options.runs; run++ {
		warm, raw := fmt.Sprintf("warm.%d", run), fmt.Sprintf("raw.%d", run)
		if err := createTopics(ctx, s.client, warm, raw); err != nil {
			return err
		}
		perSecond, err := plainLimit(ctx, s.brokers, warm, raw, s.options.events)
		if err = errors.Join(err, deleteTopics(ctx, s.client, warm, raw)); err != nil {
			return fmt.Errorf("plain producer: %w", err)
		}
		s.say("run %d of %d: plain producer: %.0f events/s", run, s.options.runs, perSecond)
		r.Limits = append(r.Limits, limit{run, perSecond})
		for i := range contenders {
			i = (i + run - 1) % len(contenders)
			f, err := s.take(ctx, contenders[i], run)
			if err != nil {
				return fmt.Errorf("%s: %w", contenders[i].name(), err)
			}
			f.Run, f.LimitPerSecond = run, perSecond
			s.say("run %d of %d: %s: %.0f events/s, %.0f µs of CPU an event, %.0f MiB; %d lost, %d duplicated, %d out of order",
				run, s.options.runs, contenders[i].name(), f.EventsPerSecond, f.CPUPerEvent, f.RSSMiB, f.Lost, f.Duplicated, f.Reordered)
			all[i] = append(all[i], f)
		}
	}
	for i, c := range contenders {
		r.Results = append(r.Results, newResult(c.name(), c.settings(), c.events(s.options), all[i]))
	}
	r.relate()
	return nil
}
