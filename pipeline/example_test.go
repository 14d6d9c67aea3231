package pipeline_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
	"github.com/millrace-go/millrace/pipeline"
)

// The whole way: an event committed with its business transaction, relayed, and handled in a transaction with its effect.
func Example() {
	t := &exampleT{}
	defer t.done()
	db, brokers, topic := testkit.Migrated(t), testkit.Kafka(t), testkit.Topic(t, 1)

	type orderPaid struct{ Order string }
	paid := make(chan string)
	p, _ := pipeline.New(db, pipeline.Config{Brokers: brokers}, nil)
	_ = p.Handle("order-projection", topic, handlers.JSON(func(_ context.Context, _ *sql.Tx, e orderPaid) error {
		paid <- e.Order
		return nil
	}))
	ended := make(chan error)
	go func() { ended <- p.Run(context.Background()) }()

	_ = outbox.InTx(context.Background(), db, func(ctx context.Context, tx *sql.Tx) error {
		// business writes on tx
		msg := event.New("order.paid", []byte(`{"Order":"4711"}`), event.Aggregate("order", "4711", 1))
		return p.Outbox().Publish(topic, event.InTx(ctx, msg, tx))
	})
	fmt.Println("paid:", <-paid)
	_ = p.Close()
	fmt.Println(<-ended)
	// Output:
	// paid: 4711
	// <nil>
}

// exampleT stands in for a test, which examples do not have.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (*exampleT) Name() string              { return "example" }
func (*exampleT) Helper()                   {}
func (t *exampleT) Cleanup(f func())        { t.cleanups = append(t.cleanups, f) }
func (*exampleT) Logf(string, ...any)       {}
func (*exampleT) Errorf(f string, a ...any) { fmt.Fprintf(os.Stderr, f, a...) }
func (*exampleT) FailNow()                  { panic("example failed") }

func (t *exampleT) done() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}
