package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "millrace",
		Short: "Carries committed events to Kafka and into handlers, each effect once",
		Long: `Millrace carries a team's events from its business transaction to Kafka and into its handlers.

Try it:  millrace demo

Settings come from --config (or MILLRACE_CONFIG), the environment (MILLRACE_DATABASE_URL, ...) and flags, the later
before the earlier: see "millrace config show". Secrets come from the environment or from files (MILLRACE_..._FILE).

Exit codes: 0 ok, 1 error, 2 usage or configuration, 3 a check found trouble, 4 partly done, 5 not found, 6 conflict,
7 PostgreSQL or Kafka unreachable, 130 interrupted.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		newDemo(a), newRun(a), newPublish(a), newConsume(a), newMigrate(a), newOutbox(a), newRelay(a),
		newDLQ(a), newDoctor(a), newBench(a), newConfig(a), newVersion(a),
	)
	asGroup(root)
	return root
}

// newGroup makes a command that only has commands of its own.
func newGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: use, Short: short}
	group.AddCommand(commands...)
	asGroup(group)
	return group
}

// asGroup makes a misspelt or missing command an error, where cobra alone would print the help and succeed.
func asGroup(group *cobra.Command) {
	group.Args = cobra.ArbitraryArgs
	group.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
		}
		if cmd.HasParent() {
			return fmt.Errorf("%q needs a command", cmd.CommandPath())
		}
		return cmd.Help()
	}
}
