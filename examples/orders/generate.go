package orders

import (
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"
)

// operationSpace is the name space of generated operation ids.
var operationSpace = uuid.MustParse("7a1d0c5e-9d0f-5b52-8a55-3f0d9c6f2b11")

// UnknownCurrency is the currency of the one order in Generate's output that no consumer understands until
// AcceptCurrency.
const UnknownCurrency = "XTS"

// Generate makes the operations on n orders, all of which can be created, together with realistic failures: cards that are
// declined, orders paid twice, shipped unpaid or cancelled too late, goods that are sold out, clients that repeat an
// operation or have seen an old version. Operations of different orders are interleaved. One order, in the middle, is in
// UnknownCurrency. Equal arguments give equal operations.
func Generate(n int, seed uint64) []Operation {
	g := &generator{rand: rand.New(rand.NewPCG(seed, 0))}
	var open [][]Operation
	for next := 0; next < n || len(open) > 0; {
		if next < n && (len(open) < 20 || g.rand.IntN(3) == 0) {
			open = append(open, g.story(next, next == n/2))
			next++
		}
		i := g.rand.IntN(len(open))
		g.operations = append(g.operations, open[i][0])
		if open[i] = open[i][1:]; len(open[i]) == 0 {
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	return g.operations
}

type generator struct {
	rand       *rand.Rand
	ids        int
	operations []Operation
}

// story is what happens to one order, in order.
func (g *generator) story(n int, unknownCurrency bool) []Operation {
	id := fmt.Sprintf("order-%06d", n+1)
	create := g.operation(Create, id)
	create.Customer = fmt.Sprintf("customer-%03d", g.rand.IntN(200)+1)
	create.SKU = fmt.Sprintf("sku-%d", g.rand.IntN(20)+1)
	create.Quantity = g.rand.Int64N(5) + 1
	create.AmountCents = g.rand.Int64N(20_000) + 500
	create.Currency = []string{"EUR", "EUR", "EUR", "USD", "GBP"}[g.rand.IntN(5)]
	if unknownCurrency {
		create.Currency = UnknownCurrency
		return []Operation{create}
	}
	var story []Operation
	if g.rand.IntN(20) == 0 {
		soldOut := create
		soldOut.ID, soldOut.OrderID, soldOut.SKU = g.id(), id+"-b", "sku-sold-out"
		story = append(story, soldOut)
	}
	story = append(story, create)
	pay, ship, cancel := g.operation(Pay, id), g.operation(Ship, id), g.operation(Cancel, id)
	switch chance := g.rand.IntN(100); {
	case chance < 60:
		story = append(story, pay, ship)
	case chance < 70:
		story = append(story, pay)
	case chance < 75:
		declined := g.operation(Pay, id)
		declined.CardDeclined = true
		story = append(story, declined, pay, ship)
	case chance < 79: // the user clicked twice
		story = append(story, pay, g.operation(Pay, id), ship)
	case chance < 82: // the client did not get the answer
		story = append(story, pay, pay, ship)
	case chance < 85:
		story = append(story, g.operation(Ship, id), pay, ship)
	case chance < 88:
		story = append(story, pay, ship, cancel)
	case chance < 91: // two clerks at once
		cancel.ExpectedVersion = 1
		story = append(story, pay, cancel, ship)
	case chance < 96:
		story = append(story, cancel)
	default:
		story = append(story, pay, cancel)
	}
	return story
}

func (g *generator) operation(kind Kind, orderID string) Operation {
	return Operation{ID: g.id(), Kind: kind, OrderID: orderID}
}

func (g *generator) id() string {
	g.ids++
	return uuid.NewSHA1(operationSpace, fmt.Appendf(nil, "%d", g.ids)).String()
}
