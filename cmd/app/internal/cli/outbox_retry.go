package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/outbox"
)

func newOutboxRetry(a *app) *cobra.Command {
	c := &outboxChange{
		action: "retry", done: "retried", short: "Have retrying, quarantined or scheduled events tried now",
		long: `Has parked events tried again now, with all their attempts before them; a scheduled one is sent ahead of its time. Events
that wait for them go on waiting until they are sent.`,
		change: func(ctx context.Context, o *outbox.Operator, op outbox.Operation) ([]outbox.Change, error) {
			return o.Retry(ctx, op)
		},
	}
	cmd := c.command(a)
	c.define(cmd)
	return cmd
}

func newOutboxSkip(a *app) *cobra.Command {
	c := &outboxChange{
		action: "skip", done: "skipped", short: "Put events aside, so that those that wait for them go on",
		long: `Puts events aside that others of their key wait for. Those go on in their order. The skipped event stays parked as
quarantined; a retry sends it out of order then.`,
		change: func(ctx context.Context, o *outbox.Operator, op outbox.Operation) ([]outbox.Change, error) {
			return o.Skip(ctx, op)
		},
	}
	cmd := c.command(a)
	c.define(cmd)
	return cmd
}

func newOutboxDiscard(a *app) *cobra.Command {
	c := &outboxChange{
		action: "discard", done: "discarded", short: "Give parked events up for good",
		long: `Gives parked events up: they are never sent, and nothing waits for them any more. This is final.`,
		change: func(ctx context.Context, o *outbox.Operator, op outbox.Operation) ([]outbox.Change, error) {
			return o.Discard(ctx, op)
		},
	}
	cmd := c.command(a)
	c.define(cmd)
	return cmd
}

func newOutboxAssign(a *app) *cobra.Command {
	var owner string
	c := &outboxChange{
		action: "assign", done: "assigned", short: "Say who repairs parked events",
		long: `Says who repairs parked events, in whatever state. --owner "" is nobody.`,
		change: func(ctx context.Context, o *outbox.Operator, op outbox.Operation) ([]outbox.Change, error) {
			return o.Assign(ctx, owner, op)
		},
	}
	cmd := c.command(a)
	cmd.Flags().StringVar(&owner, "owner", "", "who (required)")
	_ = cmd.MarkFlagRequired("owner") // it is there
	c.define(cmd)
	return cmd
}
