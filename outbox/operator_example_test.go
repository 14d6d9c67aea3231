package outbox_test

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/outbox"
)

// The broker is being moved: hold the orders back, and let them go again.
func ExampleOperator() {
	ctx := context.Background()
	db, end := exampleDatabase()
	defer end()

	operator, err := outbox.NewOperator(db, outbox.OperatorConfig{Actor: "ann"})
	if err != nil {
		panic(err)
	}
	pause := outbox.Pause{Topic: "orders", Reason: "the broker is being moved"}
	if err := operator.Pause(ctx, pause, false); err != nil {
		panic(err)
	}
	stats, err := operator.Stats(ctx)
	if err != nil {
		panic(err)
	}
	for _, p := range stats.Paused {
		fmt.Println(p, "by", p.Actor)
	}
	if err := operator.Resume(ctx, pause, false); err != nil {
		panic(err)
	}
	fmt.Println(operator.Resume(ctx, pause, false))
	// Output:
	// topic orders by ann
	// outbox: resume: topic orders: not paused
}

// A customer's events go nowhere because their topic was closed: send them to another one.
func ExampleOperator_Edit() {
	ctx := context.Background()
	db, end := exampleDatabase()
	defer end()
	operator, err := outbox.NewOperator(db, outbox.OperatorConfig{Actor: "ann"})
	if err != nil {
		panic(err)
	}
	changes, err := operator.Edit(ctx, outbox.Edit{Topic: "orders.v2"}, outbox.Operation{
		Matching: outbox.ParkedFilter{State: "quarantined", Topic: "orders"},
		Reason:   "orders was closed",
		DryRun:   true,
	})
	if err != nil {
		panic(err)
	}
	for _, c := range changes {
		fmt.Println(c.EventID, c.State, c.Differences, c.Err)
	}
	fmt.Println(len(changes), "events")
	// Output: 0 events
}
