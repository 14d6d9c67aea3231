package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/middleware"
)

// An existing router takes one line. Handlers then write through the transaction in their message's context.
func ExampleDedup() {
	db, done := exampleDatabase()
	defer done()
	_, _ = db.Exec("create table payment (order_id text)")
	pubsub := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	router, _ := message.NewRouter(message.RouterConfig{}, nil)
	router.AddConsumerHandler("order-projection", "orders", pubsub, func(msg *message.Message) error {
		tx, _ := event.TxFromContext(msg.Context())
		_, err := tx.ExecContext(msg.Context(), "insert into payment values ('4711')")
		return err
	})

	router.AddMiddleware(middleware.Dedup{DB: db}.Middleware) // this one

	stop := start(router)
	paid := event.New("order.paid", []byte(`{"order":"4711"}`))
	_ = pubsub.Publish("orders", paid, paid, paid)
	stop()
	var payments int
	_ = db.QueryRow("select count(*) from payment").Scan(&payments)
	fmt.Println("deliveries: 3, payments:", payments)
	// Output: deliveries: 3, payments: 1
}

// A handler that keeps failing ends as a dead letter, which is replayed once it is mended.
func ExampleDeadLetter() {
	db, done := exampleDatabase()
	defer done()
	chain := []message.HandlerMiddleware{
		middleware.Drain,
		middleware.DeadLetter{DB: db}.Middleware,
		middleware.Retry{MaxRetries: middleware.NoRetries}.Middleware,
		middleware.Recoverer,
		middleware.Dedup{DB: db, Consumer: "order-projection"}.Middleware,
	}
	pubsub := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	router, _ := message.NewRouter(message.RouterConfig{}, nil)
	router.AddMiddleware(chain...)
	router.AddConsumerHandler("order-projection", "orders", pubsub, func(*message.Message) error { panic("not yet") })
	stop := start(router)
	_ = pubsub.Publish("orders", event.New("order.paid", []byte(`{}`), event.WithID("e-1")))
	stop()

	store, _ := inbox.NewStore(db, inbox.Config{})
	dead, _ := store.Show(context.Background(), "order-projection", "e-1")
	fmt.Println(dead.State, dead.ErrorClass, dead.LastError)

	replays, _ := inbox.NewSubscriber(db, inbox.SubscriberConfig{Consumer: "order-projection"}, nil)
	mended := make(chan string)
	router, _ = message.NewRouter(message.RouterConfig{}, nil)
	router.AddMiddleware(chain...)
	router.AddConsumerHandler("order-projection.replay", "orders", replays, func(msg *message.Message) error {
		mended <- msg.Metadata[event.IDKey]
		return nil
	})
	_ = store.Replay(context.Background(), "order-projection", "e-1", inbox.By{Actor: "ann", Reason: "handler mended"})
	stop = start(router)
	fmt.Println("replayed", <-mended)
	stop()
	// Output:
	// dead panic handler panicked: not yet
	// replayed e-1
}

func start(router *message.Router) (stop func()) {
	ended := make(chan error)
	go func() { ended <- router.Run(context.Background()) }()
	<-router.Running()
	return func() {
		if err := errors.Join(router.Close(), <-ended); err != nil {
			panic(err)
		}
	}
}

func exampleDatabase() (db *sql.DB, done func()) {
	t := &exampleT{}
	return testkit.Migrated(t), t.done
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
