package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/migrations"
	"github.com/millrace-go/millrace/outbox"
)

const nameMillrace = "millrace"

// millrace is the product, as its users run it.
type millrace struct{ binary string }

// buildMillrace builds the binary from the module beside this one.
func buildMillrace(ctx context.Context, binary string) error {
	found, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/millrace-go/millrace").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "./cmd/app") //nolint:gosec // our own directory
	build.Dir = strings.TrimSpace(string(found))
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build millrace: %w\n%s", err, output)
	}
	return nil
}

func (millrace) name() string     { return nameMillrace }
func (millrace) settings() string { return "run --roles relay, default settings" }

func (millrace) events(o options) int { return o.events }

func (millrace) fill(ctx context.Context, t *turn) error {
	if err := migrations.Up(ctx, t.db, migrations.Config{}); err != nil {
		return err
	}
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{MaxRows: batch}, nil)
	if err != nil {
		return err
	}
	return batches(t.events, func(numbers []int) error {
		return outbox.InTx(ctx, t.db, func(ctx context.Context, _ *sql.Tx) error {
			var messages []*message.Message
			for _, n := range numbers {
				msg := event.New(eventType, payload(n), event.Aggregate("order", aggregate(n), version(n)), event.WithID(eventID(n)))
				msg.SetContext(ctx)
				messages = append(messages, msg)
			}
			return publisher.Publish(t.topic, messages...)
		})
	})
}

func (m millrace) command(t *turn) (*exec.Cmd, error) {
	command := exec.Command(m.binary, "run", "--roles", "relay") //nolint:gosec,noctx // built here; stop ends it, in its own time
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MILLRACE_") {
			command.Env = append(command.Env, variable)
		}
	}
	command.Env = append(command.Env, "MILLRACE_DATABASE_URL="+t.database.String(),
		"MILLRACE_KAFKA_BROKERS="+strings.Join(t.brokers, ","), "MILLRACE_LISTEN=127.0.0.1:0")
	return command, nil
}

func (millrace) clean(context.Context, *turn) error { return nil }
