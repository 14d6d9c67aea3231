package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/config"
	"github.com/millrace-go/millrace/internal/service"
)

func outputFlags(cmd *cobra.Command) {
	cmd.Flags().StringP("output", "o", outputTable, "table, json or jsonl")
	cmd.Flags().Bool("json", false, "the same as --output json")
}

// settingsFlags are for everything that reads the configuration.
func settingsFlags(cmd *cobra.Command) {
	cmd.Flags().String("config", "", "configuration file (MILLRACE_CONFIG)")
}

// logFlags are for commands that log.
func logFlags(cmd *cobra.Command) {
	cmd.Flags().String("log-level", "", "error, warn, info, debug or trace (MILLRACE_LOG_LEVEL)")
	cmd.Flags().String("log-format", "", "text or json (MILLRACE_LOG_FORMAT)")
}

func databaseFlags(cmd *cobra.Command) {
	settingsFlags(cmd)
	cmd.Flags().String("database-url", "", "PostgreSQL, postgres://user@host:port/database (MILLRACE_DATABASE_URL)")
	cmd.Flags().String("schema", "", "schema of the tables (MILLRACE_SCHEMA), default millrace")
}

func kafkaFlags(cmd *cobra.Command, kind string) {
	cmd.Flags().String("kafka-brokers", "", "Kafka, host:port and more with commas (MILLRACE_KAFKA_BROKERS)")
	cmd.Flags().String("kafka", kind, "which broker to start where none is given: embedded or real")
}

// stateFlags are for commands that start nothing unless told to.
func stateFlags(cmd *cobra.Command) {
	cmd.Flags().String("state-dir", "", "work on the services and data that \"demo --keep\" left in this directory")
}

// ownStateFlags are for commands that start what is missing.
func ownStateFlags(cmd *cobra.Command) {
	cmd.Flags().String("state-dir", service.DefaultStateDir(), "directory for services that are started")
}

// readFlags takes over what the functions above define, as far as the command has it.
func (a *app) readFlags(cmd *cobra.Command) error {
	value := func(name string) string {
		if f := cmd.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	a.configFile, a.stateDir, a.kafkaKind, a.output = value("config"), value("state-dir"), value("kafka"), value("output")
	a.kafkaGiven = cmd.Flags().Changed("kafka")
	if a.configFile == "" {
		a.configFile = os.Getenv(config.Prefix + "CONFIG")
	}
	if value("json") == "true" {
		if cmd.Flags().Changed("output") && a.output != outputJSON {
			return usage{fmt.Errorf("--json and --output %s exclude each other", a.output)}
		}
		a.output = outputJSON
	}
	switch a.output {
	case "", outputTable, outputJSON, outputJSONLines:
		return nil
	default:
		return usage{fmt.Errorf("--output %q is none of table, json and jsonl", a.output)}
	}
}
