package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/middleware"
	"github.com/millrace-go/millrace/outbox"
	"github.com/millrace-go/millrace/pipeline"
)

const (
	patience = time.Minute // what should happen at once has this long on a busy machine
	tick     = 10 * time.Millisecond
)

var errFailed = errors.New("handler failed")

func TestMain(m *testing.M) {
	if order := os.Getenv(relayVariable); order != "" {
		os.Exit(relayProcess(order))
	}
	// The stock subscriber's client keeps one goroutine for the metrics of the whole process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// businessTables are what an application has: a state, a journal of effects that would show every repetition because
// nothing in it is unique, and a balance that would, too, because adding to it is not idempotent.
const businessTables = `
	create table orders (id text primary key, state text not null, version bigint not null);
	create table effect (n bigint generated always as identity, consumer text not null, event_id text not null, payload bytea);
	create table balance (consumer text, account text, amount bigint not null, primary key (consumer, account));`

// system is one service's database, and a topic.
type system struct {
	t       *testing.T
	db      *sql.DB
	dsn     string
	brokers []string
	topic   string
	suffix  string // makes the names of consumers this test's own
	outbox  *outbox.ContextPublisher
	inbox   *inbox.Store
	logs    *journal // of every relay and pipeline
}

func newSystem(t *testing.T, partitions int) *system {
	t.Helper()
	db, dsn := testkit.MigratedDatabase(t)
	db.SetMaxOpenConns(60)
	_, err := db.Exec(businessTables)
	require.NoError(t, err)
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	require.NoError(t, err)
	store, err := inbox.NewStore(db, inbox.Config{})
	require.NoError(t, err)
	return &system{
		t: t, db: db, dsn: dsn, brokers: testkit.Kafka(t), topic: testkit.Topic(t, partitions),
		suffix: uuid.NewString()[:8], outbox: publisher, inbox: store, logs: &journal{},
	}
}

// name makes the name of a consumer, and so of its group, this test's own.
func (s *system) name(consumer string) string { return consumer + "-" + s.suffix }

// publish commits the messages in one transaction.
func (s *system) publish(topic string, messages ...*message.Message) {
	s.t.Helper()
	require.NoError(s.t, outbox.InTx(context.Background(), s.db, func(ctx context.Context, tx *sql.Tx) error {
		for _, msg := range messages {
			event.InTx(ctx, msg, tx)
		}
		return s.outbox.Publish(topic, messages...)
	}))
}

func orderEvent(order string, version int) *message.Message {
	id := fmt.Sprintf("%s-v%d", order, version)
	return event.New("order.changed", fmt.Appendf(nil, `{"version":%d}`, version),
		event.Aggregate("order", order, int64(version)), event.WithID(id))
}

// orderEvents are version 1 of n orders.
func orderEvents(n int) (messages []*message.Message, ids []string) {
	for i := range n {
		msg := orderEvent(fmt.Sprintf("order-%d", i), 1)
		messages, ids = append(messages, msg), append(ids, msg.UUID)
	}
	return messages, ids
}

// quick is a relay that reacts at once and is replaced soon.
func quick() outbox.SubscriberConfig {
	return outbox.SubscriberConfig{Lease: 2 * time.Second, PollInterval: 20 * time.Millisecond}
}

// producer makes a publisher on the system's broker.
func (s *system) producer(config kafka.PublisherConfig) *kafka.Publisher {
	s.t.Helper()
	if config.Connection.Brokers == nil {
		config.Connection.Brokers = s.brokers
	}
	p, err := kafka.NewPublisher(config, nil)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, p.Close()) })
	return p
}

// forwarder makes a relay that does not run.
func (s *system) forwarder(publisher message.Publisher, config outbox.SubscriberConfig) *forwarder.Forwarder {
	s.t.Helper()
	f, err := forwarder.NewForwarder(s.db, publisher, forwarder.Config{Outbox: config}, s.logs)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, f.Close()) })
	return f
}

// relay runs a relay until the test ends.
func (s *system) relay(publisher message.Publisher, config outbox.SubscriberConfig) *forwarder.Forwarder {
	s.t.Helper()
	f := s.forwarder(publisher, config)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(context.Background()) }()
	s.t.Cleanup(func() {
		require.NoError(s.t, f.Close())
		require.NoError(s.t, <-ended)
	})
	<-f.Running()
	return f
}

// relayOnce sends what is committed now.
func (s *system) relayOnce() (sent int) {
	s.t.Helper()
	sent, err := s.forwarder(s.producer(kafka.PublisherConfig{}), quick()).RunOnce(context.Background(), 100_000)
	require.NoError(s.t, err)
	return sent
}

// pipeline makes a pipeline with pauses fit for tests.
func (s *system) pipeline(config pipeline.Config) *pipeline.Pipeline {
	s.t.Helper()
	if len(config.Brokers) == 0 {
		config.Brokers = s.brokers
	}
	if config.Forwarder.Outbox.Lease == 0 {
		config.Forwarder.Outbox = quick()
	}
	if config.Retry.InitialInterval == 0 {
		config.Retry.InitialInterval = time.Millisecond
	}
	config.Subscriber.CommitInterval = 100 * time.Millisecond
	config.ReplayInterval = 20 * time.Millisecond
	p, err := pipeline.New(s.db, config, s.logs)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = p.Close() })
	return p
}

// start runs the pipeline until stop is called or the test ends; neither may fail.
func (s *system) start(p *pipeline.Pipeline) (stop func()) {
	s.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(context.Background()) }()
	stop = sync.OnceFunc(func() {
		require.NoError(s.t, p.Close())
		require.NoError(s.t, <-ended)
	})
	s.t.Cleanup(stop)
	select {
	case <-p.Running():
	case <-time.After(patience):
		require.FailNow(s.t, "the pipeline does not start")
	}
	return stop
}

// consume runs one consumer, without a relay.
func (s *system) consume(consumer, topic string, handler message.NoPublishHandlerFunc) (stop func()) {
	s.t.Helper()
	p := s.pipeline(pipeline.Config{ConsumeOnly: true})
	require.NoError(s.t, p.Handle(consumer, topic, handler))
	return s.start(p)
}

// effect is a handler's business write, in the transaction of the message.
func effect(ctx context.Context, consumer string, msg *message.Message) error {
	tx, ok := event.TxFromContext(ctx)
	if !ok {
		return errors.New("no transaction")
	}
	id := msg.Metadata[event.IDKey]
	_, err := tx.ExecContext(ctx, "insert into effect (consumer, event_id, payload) values ($1, $2, $3)", consumer, id, []byte(msg.Payload))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `insert into balance values ($1, $2, 1)
		on conflict (consumer, account) do update set amount = balance.amount + 1`, consumer, id)
	return err
}

func apply(consumer string) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error { return effect(msg.Context(), consumer, msg) }
}

// effects are the event_ids in the order they took effect.
func (s *system) effects(consumer string) []string {
	return s.column("select event_id from effect where consumer = $1 order by n", consumer)
}

// awaitEffects waits until the consumer's effects are those of the events, each once.
func (s *system) awaitEffects(consumer string, ids ...string) {
	s.t.Helper()
	s.await(func() bool { return len(s.effects(consumer)) >= len(ids) })
	require.ElementsMatch(s.t, ids, s.effects(consumer), "one effect each")
	require.Equal(s.t, len(ids), s.count("select coalesce(sum(amount), 0) from balance where consumer = $1", consumer))
}

// await waits for what has to happen.
func (s *system) await(condition func() bool) {
	s.t.Helper()
	polls, late := time.NewTicker(tick), time.After(patience)
	defer polls.Stop()
	for !condition() { // in the test's own goroutine, so that it may fail the test
		select {
		case <-polls.C:
		case <-late:
			require.FailNow(s.t, "it does not happen", "logged:\n%s", strings.Join(s.logs.matching(func(string) bool { return true }), "\n"))
		}
	}
}

// awaitSent waits until every event has a receipt.
func (s *system) awaitSent() {
	s.t.Helper()
	s.await(func() bool { return s.pending() == 0 })
}

func (s *system) pending() int {
	return s.count("select count(*) from millrace.outbox_status where state <> 'sent'")
}

// awaitInbox waits until the consumer has so many rows in the state.
func (s *system) awaitInbox(consumer, state string, n int) {
	s.t.Helper()
	s.await(func() bool {
		return s.count("select count(*) from millrace.inbox where consumer = $1 and state = $2", consumer, state) == n
	})
}

func (s *system) count(query string, args ...any) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.db.QueryRow(query, args...).Scan(&n))
	return n
}

func (s *system) column(query string, args ...any) []string {
	s.t.Helper()
	rows, err := s.db.Query(query, args...)
	require.NoError(s.t, err)
	defer rows.Close()
	all := []string{}
	for rows.Next() {
		var one string
		require.NoError(s.t, rows.Scan(&one))
		all = append(all, one)
	}
	require.NoError(s.t, rows.Err())
	return all
}

// dead returns the consumer's dead letters in full.
func (s *system) dead(consumer string) []inbox.DeadLetter {
	s.t.Helper()
	page, err := s.inbox.List(context.Background(), inbox.Filter{Consumer: consumer, Limit: inbox.MaxPage})
	require.NoError(s.t, err)
	for i, d := range page {
		page[i], err = s.inbox.Show(context.Background(), d.Consumer, d.EventID)
		require.NoError(s.t, err)
	}
	return page
}

func (s *system) replay(consumer, eventID string) {
	s.t.Helper()
	require.NoError(s.t, s.inbox.Replay(context.Background(), consumer, eventID, inbox.By{Actor: "test", Reason: "mended"}))
}

// counter counts calls by event_id.
type counter struct {
	mutex sync.Mutex
	calls map[string]int
}

func (c *counter) add(id string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[id]++
	return c.calls[id]
}

func (c *counter) of(id string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.calls[id]
}

// journal is a logger that keeps what it is told.
type journal struct {
	mutex sync.Mutex
	lines []string
	field watermill.LogFields
	root  *journal
}

func (j *journal) write(msg string, err error, fields watermill.LogFields) {
	to := j
	if j.root != nil {
		to = j.root
	}
	to.mutex.Lock()
	defer to.mutex.Unlock()
	to.lines = append(to.lines, fmt.Sprint(msg, " ", err, " ", j.field.Add(fields)))
}

func (j *journal) Error(msg string, err error, fields watermill.LogFields) { j.write(msg, err, fields) }
func (j *journal) Info(msg string, fields watermill.LogFields)             { j.write(msg, nil, fields) }
func (j *journal) Debug(string, watermill.LogFields)                       {}
func (j *journal) Trace(string, watermill.LogFields)                       {}

func (j *journal) With(fields watermill.LogFields) watermill.LoggerAdapter {
	root := j
	if j.root != nil {
		root = j.root
	}
	return &journal{root: root, field: j.field.Add(fields)}
}

// matching returns the lines for which all parts occur.
func (j *journal) matching(match func(line string) bool) []string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return slices.DeleteFunc(slices.Clone(j.lines), func(line string) bool { return !match(line) })
}

// noRetries dead-letters at the first failure.
var noRetries = middleware.Retry{MaxRetries: middleware.NoRetries}
