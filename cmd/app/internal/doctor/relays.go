package doctor

import (
	"context"
	"strings"
	"time"
)

var relays = subject{
	names: []string{"outbox.relays", "outbox.leases"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		registered, err := e.operator.Relays(ctx)
		if err != nil {
			return nil, err
		}
		live, lagging := 0, []string{}
		shortest := time.Duration(0)
		for _, r := range registered {
			switch {
			case r.Live:
				if live++; live == 1 || r.LeaseRemaining < shortest {
					shortest = r.LeaseRemaining
				}
			case r.Shards > 0:
				lagging = append(lagging, r.Name+", ended "+rounded(-r.LeaseRemaining).String()+" ago")
			}
		}
		found := []Check{ok("outbox.relays", "live: %d, in the register: %d", live, len(registered))}
		if live == 0 {
			found[0] = warning("outbox.relays", "none is live, so nothing is sent: start \"millrace run\"")
		}
		switch {
		case len(lagging) > 0:
			return append(found, warning("outbox.leases", "relays with ended leases have shards that nobody has taken over (%s): start a relay, or see \"millrace relay status\"",
				strings.Join(lagging[:min(len(lagging), maxHolders)], "; "))), nil
		case live == 0:
			return append(found, ok("outbox.leases", "there is none")), nil
		}
		return append(found, ok("outbox.leases", "the one that ends first has %s left", rounded(shortest))), nil
	},
}
