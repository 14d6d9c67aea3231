package forwarder_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/outbox"
)

func TestMain(m *testing.M) {
	// Watermill's router leaves this one behind when its Run fails.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/ThreeDotsLabs/watermill/message.(*Router).watchAllHandlersStopped.func1"))
}

const (
	soon    = 30 * time.Second // however busy the machine is
	instant = 10 * time.Millisecond
)

// quick is a configuration without long pauses. Its lease is the default: a busy machine must not lose it by accident.
func quick() outbox.SubscriberConfig {
	return outbox.SubscriberConfig{
		PollInterval: 20 * time.Millisecond, MinBackoff: instant, MaxBackoff: 50 * time.Millisecond,
		MinHold: 30 * time.Millisecond, MaxHold: 100 * time.Millisecond,
	}
}

// lanes is a Producer as the contract has it, a lane a key: from a refusal on nothing of the key passes until a call with a
// higher generation. It tells offsets, and results come after Produce has returned.
type lanes struct {
	recorder
	before  func(msgs []*message.Message) // runs at the start of a call, or of the results
	delay   func(msgs []*message.Message)
	forward *lanes // the broker behind, if it is shared; what hung on its way there arrives all the same

	laneMu      sync.Mutex
	shut        map[string]uint64
	generations []uint64 // of every call
	results     sync.WaitGroup
}

func (l *lanes) Produce(ctx context.Context, topic string, generation uint64, msgs []*message.Message, onResult func(int, event.Receipt, error)) {
	if l.before != nil {
		l.before(msgs)
	}
	if l.forward != nil {
		l.forward.Produce(context.WithoutCancel(ctx), topic, generation, msgs, onResult)
		return
	}
	receipts, errs := make([]event.Receipt, len(msgs)), make([]error, len(msgs))
	l.laneMu.Lock()
	l.generations = append(l.generations, generation)
	for n, msg := range msgs {
		key, _ := event.Key(msg)
		lane := topic + "/" + key
		if ctx.Err() != nil || l.shut[lane] >= generation {
			errs[n] = event.ErrNotAttempted
			continue
		}
		if errs[n] = l.Publish(topic, msg); errs[n] != nil {
			if l.shut == nil {
				l.shut = map[string]uint64{}
			}
			l.shut[lane] = generation
			continue
		}
		receipts[n] = event.Receipt{Offset: int64(len(l.ids()) - 1)}
	}
	l.laneMu.Unlock()
	l.results.Go(func() {
		if l.delay != nil {
			l.delay(msgs)
		}
		for n := range msgs {
			onResult(n, receipts[n], errs[n])
		}
	})
}

// both runs a test with a publisher that is given one event at a time and with one that is given batches.
func both(t *testing.T, test func(t *testing.T, publisher message.Publisher, r *recorder)) {
	t.Run("plain publisher", func(t *testing.T) {
		r := &recorder{}
		test(t, r, r)
	})
	t.Run("producer", func(t *testing.T) {
		l := &lanes{}
		test(t, l, &l.recorder)
		l.results.Wait()
	})
}

// run runs a forwarder until the test ends.
func run(t *testing.T, db *sql.DB, publisher message.Publisher, config outbox.SubscriberConfig) *forwarder.Forwarder {
	t.Helper()
	return runLogged(t, db, publisher, forwarder.Config{Outbox: config}, nil)
}

func runLogged(t *testing.T, db *sql.DB, publisher message.Publisher, config forwarder.Config, logger watermill.LoggerAdapter) *forwarder.Forwarder {
	t.Helper()
	f, err := forwarder.NewForwarder(db, publisher, config, logger)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(context.Background()) }()
	<-f.Running()
	t.Cleanup(func() {
		require.NoError(t, f.Close())
		require.NoError(t, <-ended)
	})
	return f
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(context.Background(), statement, args...)
	require.NoError(t, err)
}

func scan[T any](t *testing.T, db *sql.DB, query string, args ...any) (value T) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(context.Background(), query, args...).Scan(&value))
	return value
}

func receipts(t *testing.T, db *sql.DB) int {
	t.Helper()
	return scan[int](t, db, `select count(*) from millrace.outbox_receipt`)
}

// settled waits until every event has its receipt.
func settled(t *testing.T, db *sql.DB) {
	t.Helper()
	require.Eventually(t, func() bool { return pending(t, db) == 0 }, soon, instant, "events without a receipt")
}

// eventually waits for a condition that changes by itself.
func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, soon, instant, what)
}

// inOrder asserts that the first occurrences of each aggregate's events are its versions from 1 on, without gaps, and
// returns how many events there are, without repetitions.
func inOrder(t *testing.T, r *recorder) int {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	last, seen := map[string]int64{}, map[string]bool{}
	for _, msg := range r.got {
		e, err := event.Parse(msg)
		require.NoError(t, err)
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		require.Equal(t, last[e.AggregateID]+1, e.AggregateVersion, "aggregate %s", e.AggregateID)
		last[e.AggregateID] = e.AggregateVersion
	}
	return len(seen)
}

// once asserts that nothing was sent twice.
func once(t *testing.T, r *recorder) {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range r.ids() {
		require.False(t, seen[id], "event %s was sent twice", id)
		seen[id] = true
	}
}

// logged keeps the messages that are logged as information or error.
type logged struct {
	watermill.NopLogger
	mu    sync.Mutex
	lines []string
}

func (l *logged) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *logged) Info(msg string, _ watermill.LogFields) { l.add(msg) }
func (l *logged) Error(msg string, err error, _ watermill.LogFields) {
	l.add(msg + ": " + err.Error())
}
func (l *logged) With(watermill.LogFields) watermill.LoggerAdapter { return l }

func (l *logged) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

func newConfig(config outbox.SubscriberConfig) forwarder.Config {
	return forwarder.Config{Outbox: config}
}

// firstVersions are the first events of the orders from one number to another.
func firstVersions(from, to int) (events []*message.Message) {
	for order := from; order <= to; order++ {
		events = append(events, orderEvent(order, 1))
	}
	return events
}

// set changes what is refused.
func (r *recorder) set(refuse func(topic string, msg *message.Message) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = refuse
}
