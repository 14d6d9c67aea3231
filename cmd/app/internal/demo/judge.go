package demo

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/examples/orders"
)

// Verdict is what the evidence shows.
type Verdict struct {
	EventsCommitted    int
	Published          int // distinct committed events on the topics
	WireDuplicates     int
	Effects            int
	DuplicatesAbsorbed int // copies on the wire that took no effect
	DeadLettered       int
	Replayed           int // dead-lettered events that have taken effect
	Lost               int // committed events that are not on their topic or have not taken effect
	DuplicatedEffects  int
	Reordered          int // records or effects that came after a later one of their aggregate
	Unexpected         int // records and effects of events that nobody committed
	WrongBalances      int

	// Violations says what is wrong, for a person; empty means ok.
	Violations []string
}

// effectKey is one consumer's effect of one event.
type effectKey struct{ consumer, eventID string }

// Judge counts.
func Judge(e Evidence) Verdict {
	var v Verdict

	// What has to be: each committed change on one topic and as one effect, and the same of the notifications it leads to.
	onOrders, onNotifications := map[string]bool{}, map[string]bool{}
	due := map[effectKey]bool{}
	balances := map[string]int64{}
	for _, c := range e.Committed {
		onOrders[c.OperationID] = true
		due[effectKey{orders.ProjectionConsumer, c.OperationID}] = true
		balances[c.OrderID] += c.DueCents
		if id := c.NotificationID(); id != "" {
			onNotifications[id] = true
			due[effectKey{orders.NotificationConsumer, id}] = true
		}
	}
	v.EventsCommitted = len(onOrders) + len(onNotifications)

	// What is on the wire.
	wire := map[string]int{}
	lost := map[string]bool{}
	for _, topic := range []struct {
		due     map[string]bool
		records []Record
	}{{onOrders, e.Orders}, {onNotifications, e.Notifications}} {
		seen := map[string]bool{}
		last := map[string]int64{}
		for _, r := range topic.records {
			if !topic.due[r.EventID] {
				v.Unexpected++
				continue
			}
			wire[r.EventID]++
			if seen[r.EventID] {
				v.WireDuplicates++
				continue // a copy may come late, that is what makes it one
			}
			seen[r.EventID] = true
			v.Published++
			if r.Version <= last[r.Aggregate] {
				v.Reordered++
			}
			last[r.Aggregate] = max(last[r.Aggregate], r.Version)
		}
		for id := range topic.due {
			if !seen[id] {
				lost[id] = true
			}
		}
	}

	// What took effect.
	dead := map[string]bool{}
	for _, id := range e.DeadLetters {
		dead[id] = true
	}
	v.DeadLettered = len(dead)
	v.Effects = len(e.Effects)
	taken := map[effectKey]int{}
	last := map[string]int64{}
	for _, f := range e.Effects {
		key := effectKey{f.Consumer, f.EventID}
		if !due[key] {
			v.Unexpected++
			continue
		}
		taken[key]++
		if taken[key] > 1 {
			v.DuplicatedEffects++
			continue
		}
		if dead[f.EventID] {
			v.Replayed++
			continue // a replay comes late
		}
		lane := f.Consumer + "/" + f.OrderID
		if f.Version <= last[lane] {
			v.Reordered++
		}
		last[lane] = max(last[lane], f.Version)
	}
	for key := range due {
		if taken[key] == 0 {
			lost[key.eventID] = true
		}
		if extra := wire[key.eventID] - max(1, taken[key]); extra > 0 {
			v.DuplicatesAbsorbed += extra
		}
	}
	v.Lost = len(lost)
	for order := range balances {
		if cents, there := e.Balances[order]; !there || cents != balances[order] {
			v.WrongBalances++
		}
	}
	v.judge(slices.Sorted(maps.Keys(lost)))
	return v
}

func (v *Verdict) judge(lost []string) {
	wrong := func(n int, what string) {
		if n != 0 {
			v.Violations = append(v.Violations, fmt.Sprintf("%d %s", n, what))
		}
	}
	wrong(v.Lost, "committed events lost")
	if len(lost) > 0 {
		v.Violations[len(v.Violations)-1] += fmt.Sprintf(", the first of them %s", lost[0])
	}
	wrong(v.DuplicatedEffects, "effects happened more than once")
	wrong(v.Reordered, "records or effects out of order")
	wrong(v.Unexpected, "records or effects of events that were never committed")
	wrong(v.WrongBalances, "orders with a wrong balance")
	wrong(v.DeadLettered-v.Replayed, "dead letters without effect")
}
