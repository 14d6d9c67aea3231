package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/cmd/app/internal/bench"
)

func newBenchLatency(a *app) *cobra.Command {
	var rate float64
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Measure the time from commit to consumer while little happens",
		Long: `Commits events one at a time, --rate a second, while a relay runs as a process of its own, and takes the time from the
return of each commit until a consumer has the event; then the queries of the relay while there is nothing to do.
There is no limit to compare with: limit_per_second, ratio and relay_cpu_us_per_event are null.` + benchKafkaNote,
	}
	a.benchCommand(cmd, benchmark{
		kafka: true, events: 200,
		check: func() error {
			if rate >= 0.1 && rate <= 1000 { // not NaN either
				return nil
			}
			return errors.New("--rate: between 0.1 and 1000")
		},
		measure: func(ctx context.Context, config bench.Config, s *services) (report, error) {
			config.Rate = rate
			figures, err := bench.Latency(ctx, config)
			r := newRelayReport(figures, s, manyAggregates, "")
			r.CPUPerEvent = nil // most of it goes by while nothing happens
			return r, err
		},
	})
	cmd.Flags().Float64Var(&rate, "rate", 10, "events a second")
	return cmd
}
