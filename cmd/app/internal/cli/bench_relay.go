package cli

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/cmd/app/internal/bench"
)

const (
	manyAggregates = "300 bytes of JSON, 1,000 aggregates, 6 partitions"
	plainProducer  = "a plain producer, same records, same run"
)

func newBenchRelay(a *app) *cobra.Command {
	var (
		hold      bool
		sustained time.Duration
		rate      float64
	)
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Measure the relay next to a plain producer",
		Long: `Writes events of 300 bytes on 1,000 aggregates to an outbox of its own, then measures, in the same run: a plain producer
with records of the same kind (acks=all, idempotent, asynchronous), the relay as a process of its own, the time from commit
to consumer at 10 events a second, and the queries of an idle relay. Everything is read back and counted.

With --sustained the events are written while the relay runs, one a transaction on 16 connections, and its backlog is
watched. --rate 0 is as fast as the writers alone can, which is measured first, less 20 %; --events are then those of the
plain producer. A backlog that grows exits 3.

--hold-transaction keeps a foreign transaction with a transaction id open for the whole run.` + benchKafkaNote,
	}
	a.benchCommand(cmd, benchmark{
		kafka: true, events: 20_000,
		check: func() error {
			switch {
			case sustained < 0 || sustained > 0 && sustained < time.Second:
				return errors.New("--sustained: at least 1s")
			case rate < 0 || math.IsInf(rate, 0) || math.IsNaN(rate):
				return errors.New("--rate: 0 or more")
			case rate > 0 && sustained == 0:
				return errors.New("--rate: only with --sustained")
			}
			return nil
		},
		measure: func(ctx context.Context, config bench.Config, s *services) (report, error) {
			config.HoldTransaction, config.Sustained, config.Rate = hold, sustained, rate
			if sustained > 0 {
				return benchSustained(ctx, config, s)
			}
			figures, err := bench.Relay(ctx, config)
			return newRelayReport(figures, s, manyAggregates, plainProducer), err
		},
	})
	cmd.Flags().BoolVar(&hold, "hold-transaction", false, "keep a foreign transaction open for the whole run")
	cmd.Flags().DurationVar(&sustained, "sustained", 0, "write while the relay runs, for so long, instead of beforehand")
	cmd.Flags().Float64Var(&rate, "rate", 0, "events a second with --sustained, 0 = nearly as many as the writers can")
	return cmd
}

func benchSustained(ctx context.Context, config bench.Config, s *services) (report, error) {
	figures, backlog, err := bench.Sustained(ctx, config)
	r := newRelayReport(figures, s, manyAggregates, plainProducer)
	r.Sustained = &sustainedReport{
		AskedPerSecond: tenths(backlog.AskedPerSecond), WrittenPerSecond: tenths(backlog.WrittenPerSecond),
		MaxBacklog: backlog.Max, FinalBacklog: backlog.Final, Flat: backlog.Flat,
	}
	return r, err
}
