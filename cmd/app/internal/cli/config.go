package cli

import (
	"errors"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/config"
)

func newConfig(a *app) *cobra.Command {
	return newGroup("config", "Show and check the configuration", newConfigShow(a), newConfigValidate(a))
}

type configReport struct {
	Settings []config.Setting `json:"settings"`
}

func newConfigShow(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every setting, its value and where that comes from; secrets are not shown",
		Args:  cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			_, settings, problems := a.load(cmd)
			err := a.document(configReport{Settings: settings}, func(t table.Writer) {
				t.AppendHeader(table.Row{"key", "value", "source"})
				for _, s := range settings {
					t.AppendRow(table.Row{s.Key, fmt.Sprint(s.Value), s.Source})
				}
			})
			return errors.Join(problems, err)
		}),
	}
	a.configCommandFlags(cmd)
	return cmd
}

type validateReport struct {
	Valid    bool             `json:"valid"`
	Problems []config.Problem `json:"problems"`
}

func newConfigValidate(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration; everything that is wrong is listed, and the exit code is 2 then",
		Args:  cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			_, _, err := a.load(cmd)
			report := validateReport{Valid: err == nil, Problems: []config.Problem{}}
			var problems config.Problems
			if errors.As(err, &problems) {
				report.Problems = append(report.Problems, problems...)
			}
			return errors.Join(err, a.document(report, func(t table.Writer) {
				if report.Valid {
					t.AppendRow(table.Row{"the configuration is valid"})
					return
				}
				t.AppendHeader(table.Row{"key", "source", "what to do"})
				for _, p := range report.Problems {
					t.AppendRow(table.Row{p.Key, p.Source, p.Remedy})
				}
			}))
		}),
	}
	a.configCommandFlags(cmd)
	return cmd
}

// configCommandFlags offers every setting that some command has a flag for.
func (a *app) configCommandFlags(cmd *cobra.Command) {
	outputFlags(cmd)
	databaseFlags(cmd)
	logFlags(cmd)
	cmd.Flags().String("kafka-brokers", "", "Kafka, host:port and more with commas (MILLRACE_KAFKA_BROKERS)")
	cmd.Flags().String("listen", "", "address of health and metrics (MILLRACE_LISTEN)")
}
