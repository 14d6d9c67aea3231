package event_test

import (
	"fmt"

	"github.com/millrace-go/millrace/event"
)

func ExampleNew() {
	msg := event.New("order.paid", []byte(`{"amount":12}`),
		event.WithID("payment-7"), event.Aggregate("order", "4711", 3), event.CausedBy("checkout-1"))
	e, err := event.Parse(msg)
	fmt.Println(e.ID, e.Type, e.AggregateID, e.AggregateVersion, e.PartitionKey, err)
	// Output: payment-7 order.paid 4711 3 4711 <nil>
}
