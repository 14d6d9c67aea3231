package pipeline_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
	"github.com/millrace-go/millrace/pipeline"
)

func TestMain(m *testing.M) {
	// A Watermill router that could not start leaves the goroutine behind that waits for its handlers.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/ThreeDotsLabs/watermill/message.(*Router).watchAllHandlersStopped.func1"))
}

const patience = 30 * time.Second

func newPipeline(t *testing.T, db *sql.DB, config pipeline.Config) *pipeline.Pipeline {
	t.Helper()
	config.Brokers = testkit.Kafka(t)
	p, err := pipeline.New(db, config, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func nothing(*message.Message) error { return nil }

// within fails the test when f does not return.
func within(t *testing.T, what string, f func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		require.FailNow(t, what+" does not return")
		return nil
	}
}

func started(ctx context.Context, t *testing.T, p *pipeline.Pipeline) (ended chan error) {
	t.Helper()
	ended = make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	select {
	case <-p.Running():
	case <-time.After(patience):
		require.FailNow(t, "the pipeline does not start")
	}
	return ended
}

func TestConsumersAreRefusedThatWouldShareAnInboxOrCannotRun(t *testing.T) {
	p := newPipeline(t, testkit.Migrated(t), pipeline.Config{})
	require.NoError(t, p.Handle("projection", "orders", nothing))
	require.ErrorContains(t, p.Handle("projection", "payments", nothing), "projection")
	require.Error(t, p.Handle("projection.replay", "orders", nothing), "the name of the first one's replays")
	require.Error(t, p.Handle("events_forwarder", "orders", nothing), "the name of the relay on the router")
	require.ErrorIs(t, p.Handle("", "orders", nothing), event.ErrInvalid)
	require.ErrorIs(t, p.Handle("other", "no topic", nothing), event.ErrInvalid)
	events := func(*message.Message) ([]*message.Message, error) { return nil, nil }
	require.ErrorIs(t, p.HandleWithEvents("other", "orders", "no topic", events), event.ErrInvalid)
	require.ErrorIs(t, p.HandleWithEvents("other", "orders", "", events), event.ErrInvalid)
	require.NoError(t, p.HandleWithEvents("other", "orders", "bills", events))
}

func TestHandleAfterRunIsRefused(t *testing.T) {
	p := newPipeline(t, testkit.Migrated(t), pipeline.Config{})
	ended := started(context.Background(), t, p)
	require.Error(t, p.Handle("late", "orders", nothing))
	require.NoError(t, p.Close())
	require.NoError(t, <-ended)
	require.ErrorIs(t, p.Handle("later", "orders", nothing), pipeline.ErrClosed)
}

func TestCloseBeforeRunEndsItAndRunAfterCloseIsAnError(t *testing.T) {
	p := newPipeline(t, testkit.Migrated(t), pipeline.Config{})
	require.NoError(t, p.Handle("projection", "orders", nothing))
	require.NoError(t, within(t, "Close", p.Close))
	require.NoError(t, within(t, "Close", p.Close))
	require.ErrorIs(t, within(t, "Run", func() error { return p.Run(context.Background()) }), pipeline.ErrClosed)
}

func TestRunTwiceIsAnError(t *testing.T) {
	p := newPipeline(t, testkit.Migrated(t), pipeline.Config{})
	ended := started(context.Background(), t, p)
	require.Error(t, p.Run(context.Background()))
	require.NoError(t, p.Close())
	require.NoError(t, <-ended)
}

func TestContextThatEndedBeforeRunEndsItCleanly(t *testing.T) {
	p := newPipeline(t, testkit.Migrated(t), pipeline.Config{})
	require.NoError(t, p.Handle("projection", testkit.Topic(t, 1), nothing))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, within(t, "Run", func() error { return p.Run(ctx) }))
}

func TestEndOfContextEndsRunCleanly(t *testing.T) {
	db := testkit.Migrated(t)
	p := newPipeline(t, db, pipeline.Config{})
	require.NoError(t, p.Handle("projection", testkit.Topic(t, 1), nothing))
	ctx, cancel := context.WithCancel(context.Background())
	ended := started(ctx, t, p)
	cancel()
	require.NoError(t, within(t, "Run", func() error { return <-ended }))
	var relays int
	require.NoError(t, db.QueryRow("select count(*) from millrace.outbox_relay").Scan(&relays))
	require.Zero(t, relays, "the relay has left the register")
}

func TestConcurrentClosesAllWaitForTheEnd(t *testing.T) {
	p := newPipeline(t, testkit.Migrated(t), pipeline.Config{})
	require.NoError(t, p.Handle("projection", testkit.Topic(t, 1), nothing))
	ended := started(context.Background(), t, p)
	var closing sync.WaitGroup
	for range 8 {
		closing.Go(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if !p.Router().IsClosed() {
				t.Error("Close returned before the end")
			}
		})
	}
	closing.Wait()
	require.NoError(t, <-ended)
}

// What cannot start says so, and leaves nothing running.
func TestRunOnADatabaseWithoutTablesIsAnErrorAndEnds(t *testing.T) {
	p := newPipeline(t, testkit.DB(t), pipeline.Config{})
	require.NoError(t, p.Handle("projection", testkit.Topic(t, 1), nothing))
	err := within(t, "Run", func() error { return p.Run(context.Background()) })
	require.ErrorIs(t, err, outbox.ErrNotMigrated)
	require.NoError(t, within(t, "Close", p.Close))
}

func TestConsumeOnlyRelaysNothing(t *testing.T) {
	db := testkit.Migrated(t)
	topic := testkit.Topic(t, 1)
	p := newPipeline(t, db, pipeline.Config{ConsumeOnly: true})
	handled := make(chan string, 1)
	require.NoError(t, p.Handle(testkit.Group(t), topic, func(msg *message.Message) error {
		handled <- msg.UUID
		return nil
	}))
	ended := started(context.Background(), t, p)
	write := func(id string) {
		require.NoError(t, outbox.InTx(context.Background(), db, func(ctx context.Context, tx *sql.Tx) error {
			return p.Outbox().Publish(topic, event.InTx(ctx, event.New("e", nil, event.WithID(id)), tx))
		}))
	}
	write("E")
	var relays int
	require.NoError(t, db.QueryRow("select count(*) from millrace.outbox_relay").Scan(&relays))
	require.Zero(t, relays)
	require.Equal(t, outbox.Stats{}, p.RelayStats())

	relay := newPipeline(t, db, pipeline.Config{})
	relayEnded := started(context.Background(), t, relay)
	select {
	case id := <-handled:
		require.Equal(t, "E", id)
	case <-time.After(patience):
		require.FailNow(t, "not handled")
	}
	require.NoError(t, relay.Close())
	require.NoError(t, <-relayEnded)
	require.NoError(t, p.Close())
	require.NoError(t, <-ended)
}

func TestHooksAreToldOfEffectsAndDuplicatesByConsumer(t *testing.T) {
	db := testkit.Migrated(t)
	topic := testkit.Topic(t, 1)
	told := make(chan string, 10)
	p := newPipeline(t, db, pipeline.Config{
		OnApplied: func(consumer string, msg *message.Message) {
			told <- consumer + " applied " + msg.Metadata[event.IDKey]
		},
		OnDuplicate: func(consumer string, msg *message.Message) { told <- consumer + " had " + msg.Metadata[event.IDKey] },
	})
	consumer := testkit.Group(t)
	require.NoError(t, p.Handle(consumer, topic, nothing))
	ended := started(t.Context(), t, p)
	next := func() string {
		t.Helper()
		select {
		case line := <-told:
			return line
		case <-time.After(patience):
			require.FailNow(t, "nobody was told")
			return ""
		}
	}
	require.NoError(t, outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
		return p.Outbox().Publish(topic, event.InTx(ctx, event.New("x", nil, event.WithID("a")), tx))
	}))
	require.Equal(t, consumer+" applied a", next())
	require.Eventually(t, func() bool { return p.RelayStats().Acknowledged == 1 }, patience, 10*time.Millisecond)
	produceAgain(t, topic)
	require.Equal(t, consumer+" had a", next())
	require.NoError(t, p.Close())
	require.NoError(t, <-ended)
}

// produceAgain sends the first record of a topic once more.
func produceAgain(t *testing.T, topic string) {
	t.Helper()
	record := testkit.ReadTopic(t, topic)[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(testkit.Kafka(t)...))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: record.Key, Value: record.Value, Headers: record.Headers}).FirstErr())
}
