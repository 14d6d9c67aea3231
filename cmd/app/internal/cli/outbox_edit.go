package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/outbox"
)

func newOutboxEdit(a *app) *cobra.Command {
	var (
		edit        outbox.Edit
		set, remove []string
		retry       bool
	)
	c := &outboxChange{
		action: "edit", done: "edited", short: "Change where, and with which metadata, parked events are sent",
		long: `Changes the destination or the metadata of parked events; --dry-run shows before and after. The event's row in the
outbox and its payload never change, and neither does who it is: event_id, aggregate, partition_key and deliver_at. Edits
add up; its own topic as the destination undoes one before. What is retrying or quarantined is tried now, unless
--retry=false.`,
	}
	cmd := c.command(a)
	c.change = func(ctx context.Context, o *outbox.Operator, op outbox.Operation) ([]outbox.Change, error) {
		if op.Reason == "" {
			return nil, usage{errors.New("--reason is missing")}
		}
		var err error
		if edit.Metadata, err = metadataEdit(set, remove); err != nil {
			return nil, err
		}
		if cmd.Flags().Changed("retry") {
			edit.Retry = &retry
		}
		if err := edit.Validate(); err != nil {
			return nil, usage{fmt.Errorf("--destination, --metadata, --remove-metadata: %w", err)}
		}
		return o.Edit(ctx, edit, op)
	}
	cmd.Flags().StringVar(&edit.Topic, "destination", "", "topic to send them to")
	cmd.Flags().StringArrayVar(&set, "metadata", nil, "KEY=VALUE to add or replace; may be given several times")
	cmd.Flags().StringArrayVar(&remove, "remove-metadata", nil, "KEY to remove; may be given several times")
	cmd.Flags().BoolVar(&retry, "retry", true, "try them now; events that are blocked or scheduled only where it is given")
	c.define(cmd)
	return cmd
}

// metadataEdit makes one edit of what was given, nil = remove.
func metadataEdit(set, remove []string) (map[string]*string, error) {
	edit := map[string]*string{}
	for _, s := range set {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, usage{fmt.Errorf("--metadata %q is not KEY=VALUE", s)}
		}
		edit[key] = &value
	}
	for _, key := range remove {
		if _, there := edit[key]; there {
			return nil, usage{fmt.Errorf("metadata %s is to be set and to be removed", key)}
		}
		edit[key] = nil
	}
	return edit, nil
}
