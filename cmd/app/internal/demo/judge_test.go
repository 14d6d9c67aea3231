package demo_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/cmd/app/internal/demo"
	"github.com/millrace-go/millrace/examples/orders"
)

// evidence is that of a demo in which nothing went wrong: three orders, each created and paid.
func evidence() demo.Evidence {
	e := demo.Evidence{Balances: map[string]int64{}}
	for n := range 3 {
		order := fmt.Sprintf("order-%d", n)
		created := orders.Changed{OperationID: order + "/1", OrderID: order, Version: 1, State: orders.Created, DueCents: 100}
		paid := orders.Changed{OperationID: order + "/2", OrderID: order, Version: 2, State: orders.Paid, DueCents: -100}
		e.Committed = append(e.Committed, created, paid)
		for _, c := range []orders.Changed{created, paid} {
			e.Orders = append(e.Orders, demo.Record{EventID: c.OperationID, Aggregate: order, Version: c.Version})
			e.Effects = append(e.Effects, demo.Effect{Consumer: orders.ProjectionConsumer, EventID: c.OperationID, OrderID: order, Version: c.Version})
		}
		e.Notifications = append(e.Notifications, demo.Record{EventID: paid.NotificationID(), Aggregate: order, Version: 2})
		e.Effects = append(e.Effects, demo.Effect{Consumer: orders.NotificationConsumer, EventID: paid.NotificationID(), OrderID: order, Version: 2})
		e.Balances[order] = 0
	}
	return e
}

func TestGoodEvidenceIsGood(t *testing.T) {
	v := demo.Judge(evidence())
	require.Equal(t, demo.Verdict{EventsCommitted: 9, Published: 9, Effects: 9}, v)
}

func TestCopiesOnTheWireAreAbsorbed(t *testing.T) {
	e := evidence()
	e.Orders = append(e.Orders, e.Orders[0], e.Orders[0], e.Orders[3])
	v := demo.Judge(e)
	require.Empty(t, v.Violations)
	require.Equal(t, 3, v.WireDuplicates)
	require.Equal(t, 3, v.DuplicatesAbsorbed)
}

func TestAReplayedDeadLetterMayComeLate(t *testing.T) {
	e := evidence()
	late := e.Effects[0]
	e.DeadLetters = []string{late.EventID}
	e.Effects = append(e.Effects[1:], late)
	v := demo.Judge(e)
	require.Empty(t, v.Violations)
	require.Equal(t, 1, v.DeadLettered)
	require.Equal(t, 1, v.Replayed)
}

func TestWhatIsWrongShows(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(*demo.Evidence)
		want   demo.Verdict
	}{
		"a record is missing": {
			func(e *demo.Evidence) { e.Orders = slices.Delete(e.Orders, 2, 3) },
			demo.Verdict{EventsCommitted: 9, Published: 8, Effects: 9, Lost: 1},
		},
		"a notification is missing": {
			func(e *demo.Evidence) { e.Notifications = e.Notifications[1:] },
			demo.Verdict{EventsCommitted: 9, Published: 8, Effects: 9, Lost: 1},
		},
		"an effect is missing": {
			func(e *demo.Evidence) { e.Effects = e.Effects[:8] },
			demo.Verdict{EventsCommitted: 9, Published: 9, Effects: 8, Lost: 1},
		},
		"an effect happened twice": {
			func(e *demo.Evidence) { e.Effects = append(e.Effects, e.Effects[8]) },
			demo.Verdict{EventsCommitted: 9, Published: 9, Effects: 10, DuplicatedEffects: 1},
		},
		"a copy took effect": {
			func(e *demo.Evidence) {
				e.Orders = append(e.Orders, e.Orders[0])
				e.Effects = append(e.Effects, e.Effects[0])
			},
			demo.Verdict{EventsCommitted: 9, Published: 9, WireDuplicates: 1, Effects: 10, DuplicatedEffects: 1},
		},
		"records changed places": {
			func(e *demo.Evidence) { e.Orders[0], e.Orders[1] = e.Orders[1], e.Orders[0] },
			demo.Verdict{EventsCommitted: 9, Published: 9, Effects: 9, Reordered: 1},
		},
		"effects changed places": {
			func(e *demo.Evidence) { e.Effects[0], e.Effects[1] = e.Effects[1], e.Effects[0] },
			demo.Verdict{EventsCommitted: 9, Published: 9, Effects: 9, Reordered: 1},
		},
		"a rolled-back event was published": {
			func(e *demo.Evidence) {
				e.Orders = append(e.Orders, demo.Record{EventID: "never", Aggregate: "order-0", Version: 3})
			},
			demo.Verdict{EventsCommitted: 9, Published: 9, Effects: 9, Unexpected: 1},
		},
		"a rolled-back event took effect": {
			func(e *demo.Evidence) {
				e.Effects = append(e.Effects, demo.Effect{Consumer: orders.ProjectionConsumer, EventID: "never"})
			},
			demo.Verdict{EventsCommitted: 9, Published: 9, Effects: 10, Unexpected: 1},
		},
		"an event took effect for the wrong consumer": {
			func(e *demo.Evidence) { e.Effects[0].Consumer = orders.NotificationConsumer },
			demo.Verdict{EventsCommitted: 9, Published: 9, Effects: 9, Unexpected: 1, Lost: 1},
		},
		"a balance is off": {
			func(e *demo.Evidence) { e.Balances["order-1"] = 100 },
			demo.Verdict{EventsCommitted: 9, Published: 9, Effects: 9, WrongBalances: 1},
		},
		"a balance is missing": {
			func(e *demo.Evidence) { delete(e.Balances, "order-1") },
			demo.Verdict{EventsCommitted: 9, Published: 9, Effects: 9, WrongBalances: 1},
		},
		"a dead letter was not replayed": {
			func(e *demo.Evidence) {
				e.DeadLetters = []string{e.Effects[8].EventID}
				e.Effects = e.Effects[:8]
			},
			demo.Verdict{EventsCommitted: 9, Published: 9, Effects: 8, DeadLettered: 1, Lost: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := evidence()
			c.tamper(&e)
			v := demo.Judge(e)
			require.NotEmpty(t, v.Violations)
			v.Violations = nil
			require.Equal(t, c.want, v)
		})
	}
}
