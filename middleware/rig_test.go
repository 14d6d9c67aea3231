package middleware_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/middleware"
	"github.com/millrace-go/millrace/outbox"
)

func TestMain(m *testing.M) {
	// The stock subscriber's client keeps one goroutine for the metrics of the whole process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

const (
	patience = 20 * time.Second
	tick     = 5 * time.Millisecond
)

var errFailed = errors.New("handler failed")

// rig is a database with a table for effects, and a source of messages that redelivers what is nacked.
type rig struct {
	t      *testing.T
	db     *sql.DB
	dsn    string
	store  *inbox.Store
	outbox *outbox.ContextPublisher
	source *gochannel.GoChannel

	mutex      sync.Mutex
	deliveries map[string]event.Delivery // by message UUID
}

func newRig(t *testing.T) *rig {
	t.Helper()
	db, dsn := testkit.MigratedDatabase(t)
	_, err := db.Exec("create table effect (consumer text, event_id text, payload bytea)")
	require.NoError(t, err)
	store, err := inbox.NewStore(db, inbox.Config{})
	require.NoError(t, err)
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{MaxRecordBytes: 1_048_588}, nil)
	require.NoError(t, err)
	return &rig{
		t: t, db: db, dsn: dsn, store: store, outbox: publisher,
		source:     gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil),
		deliveries: map[string]event.Delivery{},
	}
}

// chain is the documented order, with pauses fit for tests.
func (r *rig) chain() []message.HandlerMiddleware {
	return []message.HandlerMiddleware{
		middleware.Drain,
		middleware.DeadLetter{DB: r.db, Publisher: r.outbox}.Middleware,
		middleware.Retry{InitialInterval: time.Millisecond}.Middleware,
		middleware.Timeout(patience),
		middleware.Recoverer,
		middleware.Dedup{DB: r.db, Outbox: r.outbox}.Middleware,
	}
}

// router runs handlers by name on the topic "orders" until stop is called or the test ends.
func (r *rig) router(chain []message.HandlerMiddleware, handlers map[string]message.NoPublishHandlerFunc) (stop func()) {
	r.t.Helper()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, nil)
	require.NoError(r.t, err)
	router.AddMiddleware(chain...)
	for name, handler := range handlers {
		router.AddConsumerHandler(name, "orders", r.subscriber(), handler)
	}
	return run(r.t, router)
}

func run(t *testing.T, router *message.Router) (stop func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	<-router.Running()
	stop = sync.OnceFunc(func() {
		require.NoError(t, router.Close())
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// subscriber is one subscription of the source, which closing does not close for others, with coordinates added.
func (r *rig) subscriber() message.Subscriber {
	decorate := message.MessageTransformSubscriberDecorator(func(msg *message.Message) {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		if d, ok := r.deliveries[msg.UUID]; ok {
			msg.SetContext(event.ContextWithDelivery(msg.Context(), d))
		}
	})
	s, err := decorate(keepOpen{r.source})
	require.NoError(r.t, err)
	return s
}

type keepOpen struct{ message.Subscriber }

func (keepOpen) Close() error { return nil }

// at gives a message coordinates.
func (r *rig) at(msg *message.Message, d event.Delivery) *message.Message {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.deliveries[msg.UUID] = d
	return msg
}

// deliver returns when every subscriber has acknowledged.
func (r *rig) deliver(messages ...*message.Message) {
	r.t.Helper()
	delivered := make(chan error, 1)
	go func() { delivered <- r.source.Publish("orders", messages...) }()
	select {
	case err := <-delivered:
		require.NoError(r.t, err)
	case <-time.After(patience):
		require.Fail(r.t, "a message is not acknowledged")
	}
}

func (r *rig) effects() int { return r.count("select count(*) from effect") }

func (r *rig) count(query string, args ...any) (n int) {
	r.t.Helper()
	require.NoError(r.t, r.db.QueryRow(query, args...).Scan(&n))
	return n
}

func (r *rig) rows(state string) int {
	return r.count("select count(*) from millrace.inbox where state = $1", state)
}

func (r *rig) dead() []inbox.DeadLetter {
	r.t.Helper()
	page, err := r.store.List(context.Background(), inbox.Filter{})
	require.NoError(r.t, err)
	for i, d := range page {
		page[i], err = r.store.Show(context.Background(), d.Consumer, d.EventID)
		require.NoError(r.t, err)
	}
	return page
}

type outboxRow struct {
	id, topic string
	key       sql.NullString
	payload   []byte
	metadata  map[string]string
}

func (r *rig) published() (all []outboxRow) {
	r.t.Helper()
	rows, err := r.db.Query(`select event_id, topic, partition_key, payload,
		(select string_agg(key || '=' || value, E'\x01') from jsonb_each_text(metadata)) from millrace.outbox order by position`)
	require.NoError(r.t, err)
	defer rows.Close()
	for rows.Next() {
		var row outboxRow
		var metadata []byte
		require.NoError(r.t, rows.Scan(&row.id, &row.topic, &row.key, &row.payload, &metadata))
		row.metadata = map[string]string{}
		for pair := range bytes.SplitSeq(metadata, []byte{1}) {
			key, value, _ := bytes.Cut(pair, []byte("="))
			row.metadata[string(key)] = string(value)
		}
		all = append(all, row)
	}
	require.NoError(r.t, rows.Err())
	return all
}

// write is an effect: a row in the transaction of the message.
func write(msg *message.Message) error {
	tx, ok := event.TxFromContext(msg.Context())
	if !ok {
		return errors.New("no transaction")
	}
	_, err := tx.ExecContext(msg.Context(), "insert into effect values ($1, $2, $3)",
		message.HandlerNameFromCtx(msg.Context()), msg.Metadata[event.IDKey], []byte(msg.Payload))
	return err
}

func failing(calls *atomicCounter) message.NoPublishHandlerFunc {
	return func(*message.Message) error {
		calls.add()
		return errFailed
	}
}

type atomicCounter struct {
	mutex sync.Mutex
	n     int
}

func (c *atomicCounter) add() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.n++
	return c.n
}

func (c *atomicCounter) get() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.n
}

// captured is a logger that keeps lines of level Error.
type captured struct {
	watermill.NopLogger
	mutex *sync.Mutex
	lines *[]string
}

func newCaptured() captured { return captured{mutex: &sync.Mutex{}, lines: &[]string{}} }

func (c captured) Error(msg string, err error, _ watermill.LogFields) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	*c.lines = append(*c.lines, msg+": "+err.Error())
}

func (c captured) With(watermill.LogFields) watermill.LoggerAdapter { return c }
