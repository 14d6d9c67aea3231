package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lib/pq"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/cmd/app/internal/demo"
	"github.com/millrace-go/millrace/config"
	"github.com/millrace-go/millrace/examples/orders"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/migrations"
)

const (
	// demoPartitions is how many partitions the demo's topics have.
	demoPartitions = 6

	// demoPrefix keeps the demo's topics and consumer groups apart from everything else on a cluster that was given.
	demoPrefix = "millrace-demo."
)

type demoFlags struct {
	orders int
	from   string
	relays int
	chaos  bool
	keep   bool
}

func newDemo(a *app) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: orders, relays, handlers, and everything that can go wrong",
		Long: `Runs an order service, relays as processes of their own, and handlers. Some transactions roll back; with --chaos a
relay is killed, records arrive twice, handlers fail and panic, and one event can not be handled until it is repaired
and replayed. Then everything is counted: from the topics, from the tables of effects, and from the demo's own journal.

PostgreSQL and Kafka are started in --state-dir where none are given. Each run begins anew there; --keep leaves tables
and topics of this run for a look with other commands and --state-dir.`,
		Example: `  millrace demo
  millrace demo --from examples/orders/operations.jsonl --keep --state-dir /tmp/shop
  millrace dlq list --state-dir /tmp/shop`,
		Args: cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error { return a.demo(cmd, f) }),
	}
	cmd.Flags().IntVar(&f.orders, "orders", 1000, "number of orders")
	cmd.Flags().StringVar(&f.from, "from", "", "file of operations, one JSON object a line, instead of --orders")
	cmd.Flags().IntVar(&f.relays, "relays", 2, "number of relay processes")
	cmd.Flags().BoolVar(&f.chaos, "chaos", true, "let things go wrong")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "leave tables and topics behind")
	outputFlags(cmd)
	settingsFlags(cmd)
	logFlags(cmd)
	cmd.Flags().String("database-url", "", "PostgreSQL to use (MILLRACE_DATABASE_URL); its schema millrace_demo is replaced")
	kafkaFlags(cmd, "embedded")
	ownStateFlags(cmd)
	return cmd
}

func (a *app) demo(cmd *cobra.Command, f demoFlags) error {
	a.resume = "Run the demo again; it begins anew."
	operations, err := f.operations()
	if err != nil {
		return err
	}
	n := need{postgres: true, kafka: true, start: true}
	return a.withDatabase(cmd, n, func(ctx context.Context, db *sql.DB, c config.Config, s *services) error {
		return a.demoOn(ctx, db, c, s, f, operations)
	})
}

func (a *app) demoOn(
	ctx context.Context, db *sql.DB, c config.Config, s *services, f demoFlags, operations []orders.Operation,
) (err error) {
	started := time.Now()
	brokers, err := connection(c.Kafka)
	if err != nil {
		return err
	}
	if err := reachBrokers(ctx, brokers); err != nil {
		return err
	}
	release, err := lockDemo(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()

	// In the state directory the default names, so that other commands find what is kept; elsewhere names of its own.
	stage := demoStage{
		db: db, brokers: brokers, schema: orders.Schema,
		topics:    demo.Topics{Orders: demoPrefix + "orders", Notifications: demoPrefix + "notifications"},
		consumers: demo.DefaultConsumers().WithPrefix(demoPrefix),
	}
	if s.ownPostgres {
		stage.schema = migrations.DefaultSchema
	}
	if s.ownKafka {
		stage.topics = demo.Topics{Orders: "orders", Notifications: "notifications"}
		stage.consumers = demo.DefaultConsumers()
	}
	if left, err := stage.occupied(ctx); err != nil {
		return err
	} else if left {
		a.say("Removing what an earlier run left: schemas %s and %s, topics %v", stage.schema, orders.Schema, stage.topics.All())
	}
	if err := stage.clear(ctx); err != nil {
		return err
	}
	if err := stage.set(ctx); err != nil {
		return err
	}
	if !f.keep {
		defer func() { err = errors.Join(err, stage.clear(context.WithoutCancel(ctx))) }()
	}
	log, err := a.logFile("demo.log")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()

	bar := newProgress(a.stderr)
	result, err := demo.Run(ctx, db, demo.Config{
		DatabaseURL: c.DatabaseURL, Schema: stage.schema, Brokers: brokers, Topics: stage.topics, Consumers: stage.consumers,
		Operations: operations, Relays: f.relays, Chaos: f.chaos,
		Environment: a.relayEnvironment(c), RelayLog: log,
		Logger: newLogger(log, config.Log{Level: c.Log.Level, Format: c.Log.Format}),
		Say:    bar.say, Progress: bar.at, Tamper: a.tamper,
	})
	bar.finish()
	if err != nil {
		return fmt.Errorf("%w (more in %s)", err, log.Name())
	}
	report := newDemoReport(result, s, time.Since(started))
	if err := a.document(report, report.show); err != nil {
		return err
	}
	if f.keep {
		a.say("Kept: schema %s, topics %s and %s. Look around with --state-dir %s.", stage.schema, stage.topics.Orders, stage.topics.Notifications, a.stateDir)
	}
	if !report.OK {
		return fmt.Errorf("demo: %w", errTrouble)
	}
	return nil
}

func (f demoFlags) operations() ([]orders.Operation, error) {
	if f.relays < 1 {
		return nil, usage{errors.New("--relays: at least 1")}
	}
	if f.from == "" {
		if f.orders < 1 {
			return nil, usage{errors.New("--orders: at least 1")}
		}
		return orders.Generate(f.orders, 1), nil
	}
	file, err := os.Open(f.from)
	if err != nil {
		return nil, usage{fmt.Errorf("--from: %w", err)}
	}
	operations, err := orders.ReadOperations(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, usage{fmt.Errorf("--from %s: %w", f.from, err)}
	}
	if len(operations) == 0 {
		return nil, usage{fmt.Errorf("--from %s: no operations", f.from)}
	}
	return operations, nil
}

// demoStage is where a demo plays.
type demoStage struct {
	db        *sql.DB
	brokers   kafka.Connection
	schema    string
	topics    demo.Topics
	consumers demo.Consumers
}

// occupied says whether there is something to clear.
func (s demoStage) occupied(ctx context.Context) (left bool, err error) {
	err = s.db.QueryRowContext(ctx, "select exists (select from pg_namespace where nspname in ($1, $2))", s.schema, orders.Schema).Scan(&left)
	return left, err
}

// set makes tables and topics.
func (s demoStage) set(ctx context.Context) error {
	if err := orders.CreateTables(ctx, s.db); err != nil {
		return err
	}
	if err := migrations.Up(ctx, s.db, migrations.Config{Schema: s.schema}); err != nil {
		return err
	}
	return broker.CreateTopics(ctx, s.brokers, demoPartitions, nil, s.topics.All()...)
}

// clear removes them.
func (s demoStage) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := orders.DropTables(ctx, s.db)
	if _, dropErr := s.db.ExecContext(ctx, "drop schema if exists "+pq.QuoteIdentifier(s.schema)+" cascade"); dropErr != nil {
		err = errors.Join(err, dropErr)
	}
	return errors.Join(err, broker.DeleteTopics(ctx, s.brokers, s.consumers.All(), s.topics.All()))
}

// lockDemo makes sure that no two demos replace each other's tables.
func lockDemo(ctx context.Context, db *sql.DB) (release func() error, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var locked bool
	err = conn.QueryRowContext(ctx, "select pg_try_advisory_lock(hashtext('millrace demo'))").Scan(&locked)
	if err == nil && !locked {
		err = fmt.Errorf("another demo is running on this database: %w", errConflict)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "select pg_advisory_unlock(hashtext('millrace demo'))")
		return errors.Join(err, conn.Close())
	}, nil
}

// relayEnvironment is what a relay process needs of this one's configuration, beyond addresses.
func (a *app) relayEnvironment(c config.Config) []string {
	environment := []string{"MILLRACE_LOG_LEVEL=" + c.Log.Level, "MILLRACE_LOG_FORMAT=" + c.Log.Format}
	if a.configFile != "" {
		if path, err := filepath.Abs(a.configFile); err == nil {
			environment = append(environment, "MILLRACE_CONFIG="+path)
		}
	}
	return environment
}
