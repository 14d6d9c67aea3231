package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/cmd/app/internal/bench"
)

func newBenchHotKey(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hot-key",
		Short: "Measure the relay with events of one aggregate only",
		Long: `Has one relay take events of 1,000 aggregates and another one as many events of a single aggregate, which have to keep
their order: the limit is the rate of the first. Then, as "bench relay" does, the time from commit to consumer and the
queries of an idle relay. Everything is read back and counted.` + benchKafkaNote,
	}
	return a.benchCommand(cmd, benchmark{kafka: true, events: 20_000, measure: func(ctx context.Context, config bench.Config, s *services) (report, error) {
		figures, err := bench.HotKey(ctx, config)
		return newRelayReport(figures, s, "300 bytes of JSON, one aggregate", "the relay with 1,000 aggregates, same run"), err
	}})
}
