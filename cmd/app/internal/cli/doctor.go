package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/cmd/app/internal/doctor"
	"github.com/millrace-go/millrace/config"
)

// detailWidth is where the table breaks the lines of details.
const detailWidth = 100

type doctorReport struct {
	OK       bool           `json:"ok"` // nothing failed
	Warnings int            `json:"warnings"`
	Failed   int            `json:"failed"`
	Skipped  int            `json:"skipped"`
	Checks   []doctor.Check `json:"checks"`
}

func newDoctor(a *app) *cobra.Command {
	var examined doctor.Config
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check settings, broker, topics, tables, rights, clock, pooler and what holds the outbox back",
		Long: `Checks everything that events pass on their way, with the configuration that "millrace run" would have: what producer and
consumer really do, the broker, each topic, the tables, what the connected role may do, the server's settings, clocks, a
pooler in between, who holds the transaction horizon back, and how the outbox is. Each check says the effective value and
what to do. It changes nothing; relays are woken once.

Topics are those of the newest events, and those that are named with --topic. Exit code: 0 with warnings too, 3 when a check
failed, 7 when PostgreSQL or Kafka can not be reached; what can be checked then is checked all the same.`,
		Args: cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) (err error) {
			a.resume = "Run it again; it changes nothing."
			if err := examined.Validate(); err != nil {
				return usage{err}
			}
			c, s, err := a.prepare(cmd, need{postgres: true, kafka: true})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			return a.doctor(cmd.Context(), c, examined)
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&examined.Topics, "topic", nil, "look at this topic, too (may be repeated)")
	flags.StringSliceVar(&examined.For, "for", []string{doctor.ForRelay}, "what the database role is for: relay, writer, consumer, operator")
	flags.DurationVar(&examined.LongTransaction, "long-transaction", 0, "how long a transaction may hold the horizon back (default 5m)")
	flags.DurationVar(&examined.Timeout, "timeout", 0, "bound of each check (default 5s)")
	outputFlags(cmd)
	databaseFlags(cmd)
	kafkaFlags(cmd, "embedded")
	stateFlags(cmd)
	return cmd
}

func (a *app) doctor(ctx context.Context, c config.Config, examined doctor.Config) error {
	brokers, err := connection(c.Kafka)
	if err != nil {
		return err
	}
	examined.Schema, examined.Publisher = c.Schema, publisherConfig(c, brokers)
	examined.DirectURL = forwarderConfig(c).Outbox.DirectURL

	var reached doctor.Services
	if reached.DB, reached.DatabaseError = openDatabase(ctx, c.DatabaseURL); reached.DB != nil {
		defer reached.DB.Close()
	}
	if reached.KafkaError = reachBrokers(ctx, brokers); reached.KafkaError == nil {
		if reached.Kafka, err = broker.NewClient(brokers); err != nil {
			return err
		}
		defer reached.Kafka.Close()
	}
	checks, err := doctor.Examine(ctx, reached, examined)
	if err != nil {
		return usage{err}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	report := newDoctorReport(checks)
	err = a.document(report, report.show)
	unreached := errors.Join(reached.DatabaseError, reached.KafkaError)
	switch {
	case unreached != nil:
		return errors.Join(err, unreached)
	case report.Failed > 0:
		return errors.Join(err, fmt.Errorf("%w: failed: %d of %d", errTrouble, report.Failed, len(checks)))
	}
	return err
}

func newDoctorReport(checks []doctor.Check) doctorReport {
	r := doctorReport{Checks: checks}
	for _, c := range checks {
		switch c.Status {
		case doctor.Warning:
			r.Warnings++
		case doctor.Failed:
			r.Failed++
		case doctor.Skipped:
			r.Skipped++
		case doctor.OK:
		}
	}
	r.OK = r.Failed == 0
	return r
}

func (r doctorReport) show(t table.Writer) {
	colours := map[doctor.Status]text.Color{doctor.OK: text.FgGreen, doctor.Warning: text.FgYellow, doctor.Failed: text.FgRed, doctor.Skipped: text.Faint}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 3, WidthMax: detailWidth, WidthMaxEnforcer: text.WrapSoft}})
	t.AppendHeader(table.Row{"check", "status", "detail"})
	for _, c := range r.Checks {
		t.AppendRow(table.Row{c.Name, colours[c.Status].Sprint(c.Status), c.Detail})
	}
	t.AppendFooter(table.Row{"", "", fmt.Sprintf("%d checks, warnings: %d, failed: %d, skipped: %d", len(r.Checks), r.Warnings, r.Failed, r.Skipped)})
}
