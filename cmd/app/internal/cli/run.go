package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/config"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
)

// roleRelay takes events from the outbox to Kafka.
const roleRelay = "relay"

func newRun(a *app) *cobra.Command {
	var roles []string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Relay events from the outbox to Kafka, as a long-running process",
		Long: `Relays committed events from the outbox to Kafka until it is stopped. Run as many as you like: they share the work.
Handlers live in your own program. The tables must be there: "millrace migrate up".

The database tells it of new events, over one connection more. If database_url leads to a pooler in transaction mode, set
MILLRACE_RELAY_WAKE_UP=false: it polls then, every MILLRACE_RELAY_POLL_INTERVAL.

--listen serves /livez, /readyz (503 until it relays, or while PostgreSQL or Kafka is away) and /metrics for
Prometheus. SIGTERM and Ctrl-C finish what is in flight; SIGTERM exits 0, Ctrl-C 130.`,
		Args: cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			if !slices.Equal(roles, []string{roleRelay}) {
				return usage{fmt.Errorf("--roles %v: the only role is %s", roles, roleRelay)}
			}
			a.resume = "Run it again to go on; nothing is lost meanwhile."
			c, s, err := a.prepare(cmd, need{postgres: true, kafka: true})
			if err != nil {
				return err
			}
			err = errors.Join(a.relay(cmd.Context(), c), s.close())
			var stopped interrupted
			if !errors.As(context.Cause(cmd.Context()), &stopped) || len(besides(err)) > 0 {
				return err
			}
			if stopped.signal != syscall.SIGTERM {
				return stopped
			}
			return nil // also while it was starting
		}),
	}
	cmd.Flags().StringSliceVar(&roles, "roles", []string{roleRelay}, "what to do: relay")
	cmd.Flags().String("listen", "", "address of health and metrics (MILLRACE_LISTEN), default 127.0.0.1:8481")
	databaseFlags(cmd)
	logFlags(cmd)
	kafkaFlags(cmd, "embedded")
	stateFlags(cmd)
	return cmd
}

func (a *app) relay(ctx context.Context, c config.Config) error {
	tuneMemory(c)
	logger := a.logger(c.Log)
	db, err := openMigrated(ctx, c.DatabaseURL, c.Schema)
	if err != nil {
		return err
	}
	err = a.relayUntil(ctx, db, c, logger)
	return errors.Join(err, db.Close())
}

func (a *app) relayUntil(ctx context.Context, db *sql.DB, c config.Config, logger watermill.LoggerAdapter) (err error) {
	brokers, err := connection(c.Kafka)
	if err != nil {
		return err
	}
	if err := reachBrokers(ctx, brokers); err != nil {
		return err
	}
	publisher, err := kafka.NewPublisher(publisherConfig(c, brokers), logger)
	if err != nil {
		return usage{err}
	}
	defer func() { err = errors.Join(err, publisher.Close()) }()
	relay, err := forwarder.NewForwarder(db, publisher, forwarderConfig(c), logger)
	if err != nil {
		return usage{err}
	}
	health, err := newHealth(db, brokers, c.Schema, relay)
	if err != nil {
		return err
	}
	server, err := serve(ctx, c.Listen, health.handler())
	if err != nil {
		health.close()
		return err
	}
	a.serves = true
	logger.Info("Relay starts", watermill.LogFields{"listen": server.address()})

	running := make(chan error, 1)
	go func() { running <- relay.Run(context.WithoutCancel(ctx)) }()
	select {
	case err = <-running:
		err = errors.Join(errors.New("the relay ended by itself"), err)
	case <-server.ended: // close says why
		err = errors.Join(relay.Close(), <-running)
	case <-ctx.Done():
		health.stopping()
		err = errors.Join(relay.Close(), <-running)
	}
	logger.Info("Relay has stopped", nil)
	err = errors.Join(err, server.close())
	health.close()
	return err
}

func publisherConfig(c config.Config, brokers kafka.Connection) kafka.PublisherConfig {
	return kafka.PublisherConfig{
		Connection: brokers, Partitioner: kafka.Partitioner(c.Kafka.Partitioner), Compression: kafka.Compression(c.Kafka.Compression),
		MaxMessageBytes: c.Kafka.MaxMessageBytes, AllowAutoTopicCreation: c.Kafka.CreateTopics, CloseTimeout: c.Relay.CloseTimeout,
	}
}

func forwarderConfig(c config.Config) forwarder.Config {
	listen := ""
	if c.Relay.WakeUp {
		listen = listenURL(c.DatabaseURL)
	}
	policies := map[string]outbox.Policy{}
	for _, topic := range c.Relay.SkipTopics {
		policies[topic] = outbox.Skip
	}
	return forwarder.Config{Outbox: outbox.SubscriberConfig{
		Schema: c.Schema, Name: c.Relay.Name, Lease: c.Relay.Lease, PollInterval: c.Relay.PollInterval, DirectURL: listen,
		BatchSize: c.Relay.BatchSize, MaxInFlight: c.Relay.MaxInFlight,
		MaxUnsettled: c.Relay.MaxUnsettled, MaxUnsettledBytes: int64(c.Relay.MaxUnsettledBytes),
		MaxAttempts: c.Relay.MaxAttempts, MinHold: c.Relay.MinHold, MaxHold: c.Relay.MaxHold, Policies: policies,
		SweepInterval: c.Relay.SweepInterval, CloseTimeout: c.Relay.CloseTimeout,
	}}
}
