package cli

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/cmd/app/internal/demo"
	"github.com/millrace-go/millrace/config"
)

// app is what the commands share: the streams, the flags, and what they say at the end.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	output     string // table, json or jsonl
	configFile string
	stateDir   string
	kafkaKind  string
	kafkaGiven bool // --kafka was

	begun  bool   // a command's own code was reached: what fails now is no usage error by itself
	resume string // what to say after an interrupt
	serves bool   // being stopped is how the command ends from now on, and what fails on the way is an error

	// tamper changes the evidence of the demo before it is judged; for tests.
	tamper func(*demo.Evidence)
}

// run makes a command's RunE.
func (a *app) run(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.begun = true
		if err := a.readFlags(cmd); err != nil {
			return err
		}
		return f(cmd, args)
	}
}

// say talks to the person.
func (a *app) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stderr, format+"\n", args...) // nobody is left to tell
}

// configFlags are the settings that can be given as flags, by flag.
var configFlags = map[string]string{
	"database-url": "database_url", "schema": "schema", "kafka-brokers": "kafka.brokers",
	"log-level": "log.level", "log-format": "log.format", "listen": "listen",
}

// load reads the configuration for a command.
func (a *app) load(cmd *cobra.Command) (config.Config, []config.Setting, error) {
	sources := config.Sources{File: a.configFile, Flags: map[string]string{}, FlagNames: map[string]string{}}
	for flag, key := range configFlags {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			sources.Flags[key], sources.FlagNames[key] = f.Value.String(), flag
			if parsed, err := url.Parse(f.Value.String()); flag == "database-url" && err == nil && hasPassword(parsed) {
				a.say("A password in --database-url is visible in the list of processes; MILLRACE_DATABASE_URL or MILLRACE_DATABASE_URL_FILE keeps it out.")
			}
		}
	}
	return config.Load(sources)
}

func hasPassword(u *url.URL) bool {
	_, given := u.User.Password()
	return given || u.Query().Has("password")
}

func (a *app) logger(c config.Log) watermill.LoggerAdapter {
	return newLogger(a.stderr, c)
}

// newLogger writes to w what c asks for.
func newLogger(w io.Writer, c config.Log) watermill.LoggerAdapter {
	level := map[string]slog.Level{
		"error": slog.LevelError, "warn": slog.LevelWarn, "info": slog.LevelInfo, "debug": slog.LevelDebug,
		"trace": watermill.LevelTrace,
	}[c.Level]
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if c.Format == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	return watermill.NewSlogLogger(slog.New(handler))
}
