package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

// One transaction pays the order and writes the event: both happen or neither does.
func ExampleInTx() {
	ctx := context.Background()
	db, end := exampleDatabase()
	defer end()

	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil) // once, for the life of the process
	if err != nil {
		panic(err)
	}
	pay := func(id string, version int64) error {
		return outbox.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
			err := outbox.UpdateVersioned(ctx, tx,
				"update orders set state = 'paid', version = version + 1 where id = $1 and version = $2", id, version)
			if err != nil {
				return err
			}
			msg := event.New("order.paid", []byte(`{"amount":100}`), event.Aggregate("order", id, version+1))
			return publisher.Publish("orders", event.InTx(ctx, msg, tx))
		})
	}
	fmt.Println(pay("4711", 1))
	fmt.Println(errors.Is(pay("4711", 1), outbox.ErrVersionConflict)) // somebody else was first
	printOutbox(db)
	// Output:
	// <nil>
	// true
	// orders order.paid 4711 v2 {"amount":100}
}

// With the transaction at hand, a publisher can be bound to it.
func ExampleNewPublisher() {
	db, end := exampleDatabase()
	defer end()

	tx, err := db.Begin()
	if err != nil {
		panic(err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it has nothing to do
	publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
	if err != nil {
		panic(err)
	}
	if err := publisher.Publish("orders", event.New("order.paid", []byte(`{}`))); err != nil {
		panic(err)
	}
	if err := tx.Commit(); err != nil {
		panic(err)
	}
	printOutbox(db)
	// Output: orders order.paid {}
}

// OrderPaid is an event of Watermill's cqrs component.
type OrderPaid struct{ ID string }

// A cqrs.EventBus made once writes in the transaction that the context carries.
func ExampleContextPublisher_eventBus() {
	ctx := context.Background()
	db, end := exampleDatabase()
	defer end()

	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	if err != nil {
		panic(err)
	}
	bus, err := cqrs.NewEventBusWithConfig(publisher, cqrs.EventBusConfig{
		GeneratePublishTopic: func(cqrs.GenerateEventPublishTopicParams) (string, error) { return "orders", nil },
		Marshaler:            cqrs.JSONMarshaler{GenerateName: cqrs.StructName},
	})
	if err != nil {
		panic(err)
	}
	err = outbox.InTx(ctx, db, func(ctx context.Context, _ *sql.Tx) error {
		return bus.Publish(ctx, OrderPaid{ID: "4711"})
	})
	fmt.Println(err)
	fmt.Println(errors.Is(bus.Publish(ctx, OrderPaid{ID: "4711"}), outbox.ErrNoTx))
	printOutbox(db)
	// Output:
	// <nil>
	// true
	// orders OrderPaid {"ID":"4711"}
}

// Events that may have been written before, by an import that is run again, say, leave the transaction alive.
func ExamplePublisher_PublishNew() {
	ctx := context.Background()
	db, end := exampleDatabase()
	defer end()

	for range 2 {
		err := outbox.InTx(ctx, db, func(_ context.Context, tx *sql.Tx) error {
			publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
			if err != nil {
				return err
			}
			conflicts, err := publisher.PublishNew("orders", event.New("order.imported", []byte(`{}`), event.WithID("import-1")))
			fmt.Println(conflicts)
			return err
		})
		if err != nil {
			panic(err)
		}
	}
	printOutbox(db)
	// Output:
	// []
	// [{import-1 import-1}]
	// orders order.imported {}
}

// When the answer to COMMIT is lost, the event tells whether the transaction took effect.
func ExampleLookup() {
	ctx := context.Background()
	db, end := exampleDatabase()
	defer end()

	msg := event.New("order.paid", []byte(`{}`))
	write := func() error {
		return outbox.InTx(ctx, db, func(_ context.Context, tx *sql.Tx) error {
			publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
			if err != nil {
				return err
			}
			return publisher.Publish("orders", msg)
		})
	}
	err := write()
	if errors.Is(err, outbox.ErrOutcomeUnknown) {
		outcome, lookupErr := outbox.Lookup(ctx, db, msg.UUID)
		switch {
		case lookupErr != nil:
			err = lookupErr // still unknown
		case outcome.Committed:
			err = nil
		default:
			err = write() // under the same event_id
		}
	}
	fmt.Println(err)
	printOutbox(db)
	// Output:
	// <nil>
	// orders order.paid {}
}

// Aggregates whose tables keep no version get one from the outbox.
func ExampleNextVersion() {
	ctx := context.Background()
	db, end := exampleDatabase()
	defer end()

	for range 2 {
		err := outbox.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
			version, err := outbox.NextVersion(ctx, tx, "invoice", "I-1")
			if err != nil {
				return err
			}
			publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
			if err != nil {
				return err
			}
			return publisher.Publish("invoices", event.New("invoice.changed", nil, event.Aggregate("invoice", "I-1", version)))
		})
		if err != nil {
			panic(err)
		}
	}
	printOutbox(db)
	// Output:
	// invoices invoice.changed I-1 v1
	// invoices invoice.changed I-1 v2
}
