package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/outbox"
)

// outboxShowReport is an event; with its payload where that was asked for.
type outboxShowReport struct {
	outbox.EventDetail
	*payloadJSON
}

func newOutboxShow(a *app) *cobra.Command {
	var payload bool
	cmd := &cobra.Command{
		Use:   "show EVENT_ID",
		Short: "Show everything the outbox knows of one event, in whatever state it is",
		Args:  cobra.ExactArgs(1),
		RunE: a.operate(func(ctx context.Context, o *outbox.Operator, args []string) error {
			detail, err := o.Show(ctx, args[0], payload)
			if err != nil {
				return err
			}
			report := outboxShowReport{EventDetail: detail}
			if payload {
				content := detail.Payload
				if content == nil && detail.PayloadBytes != nil {
					content = []byte{}
				}
				shown := showPayload(content)
				report.payloadJSON = &shown
			}
			return a.sections(report, report.show, report.showAudit)
		}),
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "show the payload, too")
	storeFlags(cmd)
	return cmd
}

func (r outboxShowReport) show(t table.Writer) {
	t.AppendRows([]table.Row{{"event_id", r.EventID}, {"state", r.State}, {"topic", r.Topic}})
	add := func(name string, value any) {
		if s := fmt.Sprint(value); s != "" {
			t.AppendRow(table.Row{name, s})
		}
	}
	if r.AggregateType != "" {
		add("aggregate", fmt.Sprintf("%s/%s, version %d", r.AggregateType, r.AggregateID, r.AggregateVersion))
	}
	add("key", keyOf(r.PartitionKey))
	add("place", fmt.Sprintf("shard %d, position %d", r.Shard, r.Position))
	add("created", r.CreatedAt.Format(time.RFC3339))
	if r.Held != "" {
		add("held", fmt.Sprintf("its topic is %s", r.Held))
	}
	if p := r.Parked; p != nil {
		r.showParked(*p, add)
	}
	if s := r.Receipt; s != nil {
		place := ""
		if s.Partition != nil && s.Offset != nil {
			place = fmt.Sprintf(", partition %d, offset %d", *s.Partition, *s.Offset)
		}
		add("sent", fmt.Sprintf("%s to %s%s, attempts %d", s.SentAt.Format(time.RFC3339), s.Topic, place, s.Attempts))
	}
	for _, key := range slices.Sorted(maps.Keys(r.Metadata)) {
		add("metadata "+key, r.Metadata[key])
	}
	if r.payloadJSON == nil {
		return
	}
	switch {
	case r.Tombstone:
		add("payload", "(tombstone)")
	case r.PayloadBase64 != nil:
		add("payload", "(not JSON; see --json)")
	default:
		add("payload", string(r.payloadJSON.Payload))
	}
}

func (r outboxShowReport) showParked(p outbox.ParkedEvent, add func(name string, value any)) {
	add("parked", fmt.Sprintf("since %s, entry %d, attempts %d", p.ParkedAt.Format(time.RFC3339), p.Entry, p.Attempts))
	if r.Ahead+r.Behind > 0 {
		add("order", fmt.Sprintf("%d of its key before it, %d behind it", r.Ahead, r.Behind))
	}
	add("waiting", waiting(p))
	add("stage", p.Stage)
	add("error class", p.ErrorClass)
	add("first error", p.FirstError)
	add("last error", p.LastError)
	add("owner", p.Owner)
	add("sent to", p.TopicOverride)
	for _, key := range slices.Sorted(maps.Keys(p.MetadataOverride)) {
		change := "(removed)"
		if value := p.MetadataOverride[key]; value != nil {
			change = *value
		}
		add("edited "+key, change)
	}
}

func (r outboxShowReport) showAudit(t table.Writer) {
	t.AppendHeader(table.Row{"at", "who", "did", "why"})
	for _, entry := range r.Audit {
		t.AppendRow(table.Row{entry.At.Format(time.RFC3339), entry.Actor, entry.Action, shorten(entry.Reason, 60)})
	}
}
