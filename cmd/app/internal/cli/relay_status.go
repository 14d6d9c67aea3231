package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/outbox"
)

func newRelay(a *app) *cobra.Command {
	return newGroup("relay", "Look at the relays", newRelayStatus(a))
}

type relayStatusReport struct {
	Relays []registeredRelay    `json:"relays"`
	Shards []outbox.ShardStatus `json:"shards"`
	Held   []outbox.HeldTopic   `json:"held"`
	Paused []outbox.Pause       `json:"paused"`
}

type registeredRelay struct {
	ID               string    `json:"id"`
	Name             string    `json:"name"`
	Live             bool      `json:"live"`
	LeaseRemainingMS int64     `json:"lease_remaining_ms"` // negative = it has ended
	ShardsOwned      int       `json:"shards_owned"`
	SentPerSecond    float64   `json:"sent_per_second"` // of its shards together
	StartedAt        time.Time `json:"started_at"`
}

func newRelayStatus(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the relays, who has which shard, and how far it is",
		Long: `Shows the relays in the register and the shards. The lag of a shard is how many of the next 1000 events after its
stored frontier are neither sent nor parked. The rate is of the owner's newest receipts, in the last 10 seconds.`,
		Args: cobra.NoArgs,
		RunE: a.operate(func(ctx context.Context, o *outbox.Operator, _ []string) error {
			relays, err := o.Relays(ctx)
			shards, errShards := o.Shards(ctx)
			held, errHeld := o.Held(ctx)
			paused, errPaused := o.Paused(ctx)
			if err := errors.Join(err, errShards, errHeld, errPaused); err != nil {
				return err
			}
			report := relayStatusReport{Relays: []registeredRelay{}, Shards: shards, Held: held, Paused: paused}
			rates := map[string]float64{}
			for _, s := range shards {
				rates[s.RelayID] += s.SentPerSecond
			}
			for _, r := range relays {
				report.Relays = append(report.Relays, registeredRelay{
					r.RelayID, r.Name, r.Live, r.LeaseRemaining.Milliseconds(), r.Shards, rates[r.RelayID], r.StartedAt,
				})
			}
			return a.sections(report, report.showRelays, report.showShards, showHeld(held), showPaused(paused))
		}),
	}
	storeFlags(cmd)
	return cmd
}

func (r relayStatusReport) showRelays(t table.Writer) {
	t.AppendHeader(table.Row{"relay", "lease", "shards", "sent/s", "started"})
	for _, relay := range r.Relays {
		lease := "ended " + age(-relay.LeaseRemainingMS) + " ago"
		if relay.Live {
			lease = age(relay.LeaseRemainingMS)
		}
		t.AppendRow(table.Row{relay.Name, lease, relay.ShardsOwned, fmt.Sprintf("%.1f", relay.SentPerSecond), relay.StartedAt.Format(time.RFC3339)})
	}
	if len(r.Relays) == 0 {
		t.AppendRow(table.Row{"no relay is running", "", "", "", ""})
	}
}

func (r relayStatusReport) showShards(t table.Writer) {
	t.AppendHeader(table.Row{"shard", "owner", "claim", "frontier", "lag", "sent/s", "takeovers", "suspect", "last error"})
	for _, s := range r.Shards {
		lag := strconv.FormatInt(s.Lag, 10)
		if s.LagAtLeast {
			lag += "+"
		}
		t.AppendRow(table.Row{
			s.Shard, s.RelayName, s.ClaimVersion, s.FrontierPosition, lag, fmt.Sprintf("%.1f", s.SentPerSecond), s.Takeovers, s.Suspect, shorten(s.LastError, 50),
		})
	}
}
