package doctor

import (
	"context"
	"fmt"
	"strings"
)

var held = subject{
	names: []string{"outbox.held", "outbox.paused"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		topics, err := e.operator.Held(ctx)
		if err != nil {
			return nil, err
		}
		found := []Check{ok("outbox.held", "no topic")}
		var names []string
		for _, h := range topics {
			if h.Held && h.Reason != "paused" {
				names = append(names, fmt.Sprintf("%s (%s in %d shards, since %s)", h.Topic, h.Reason, h.Shards, h.Since.Format("2006-01-02T15:04:05Z")))
			}
		}
		if len(names) > 0 {
			found[0] = warning("outbox.held", "%s: see the last error in \"millrace relay status\"; it goes on by itself when the topic takes events again",
				strings.Join(names[:min(len(names), maxHolders)], ", "))
		}
		pauses, err := e.operator.Paused(ctx)
		if err != nil {
			return found, err
		}
		if len(pauses) > 0 {
			return append(found, warning("outbox.paused", "%d, such as %s, by %s: \"millrace outbox resume\" when that is over", len(pauses), pauses[0], pauses[0].Actor)), nil
		}
		return append(found, ok("outbox.paused", "nothing")), nil
	},
}
