package integration_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/pipeline"
)

// closing starts to close the pipeline and returns when that has begun; ended gets what Close returned.
func (s *system) closing(p *pipeline.Pipeline) (ended chan error) {
	s.t.Helper()
	ended = make(chan error, 1)
	go func() { ended <- p.Close() }()
	s.await(func() bool { return s.logged("Closing router") })
	return ended
}

func (s *system) logged(part string) bool {
	return len(s.logs.matching(func(line string) bool { return strings.Contains(line, part) })) > 0
}

// launch runs the pipeline and gives what Run returns to ended.
func (s *system) launch(p *pipeline.Pipeline) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- p.Run(context.Background()) }()
	<-p.Running()
	return ended
}

func records(topic string, messages []*message.Message) []*kgo.Record {
	all := make([]*kgo.Record, len(messages))
	for i, msg := range messages {
		all[i] = copyOf(msg, topic, 0)
	}
	return all
}

// Handlers are in the middle of long calls to the database, which respect their context, when the process is told to stop
// and does not wait for them: they are redone after the restart, and nothing of the cancelled run counts. The last event
// was handled before; its offset is not committed, because that would skip the others.
func TestShutdownIsNoFailure(t *testing.T) {
	s := newSystem(t, 1)
	consumer := s.name("projection")
	messages, ids := orderEvents(6)
	last := ids[5]
	s.produce(records(s.topic, messages)...)
	started := make(chan struct{}, 100)
	p := s.pipeline(pipeline.Config{ConsumeOnly: true, CloseTimeout: time.Second})
	require.NoError(t, p.Handle(consumer, s.topic, handlers.Raw(func(ctx context.Context, tx *sql.Tx, msg *message.Message) error {
		if err := effect(ctx, consumer, msg); err != nil {
			return err
		}
		if msg.UUID == last {
			return nil
		}
		started <- struct{}{}
		_, err := tx.ExecContext(ctx, "select pg_sleep(60)")
		return err
	})))
	ended := s.launch(p)
	for range ids[1:] {
		<-started
	}
	s.awaitEffects(consumer, last)
	began := time.Now()
	require.NoError(t, p.Close())
	require.NoError(t, <-ended)
	require.Greater(t, time.Since(began), time.Second, "handlers had their time")
	require.Less(t, time.Since(began), 15*time.Second)
	require.True(t, s.logged("messages:5"), "how many were not finished")
	require.Empty(t, started, "each was tried once")
	require.Equal(t, []string{last}, s.column("select event_id from millrace.inbox"))
	require.Equal(t, []string{last}, s.effects(consumer))
	require.Zero(t, s.count("select count(*) from millrace.outbox"), "no dead letter")
	require.EqualValues(t, len(ids), s.lag(consumer, s.topic))

	s.consume(consumer, s.topic, apply(consumer))
	s.awaitEffects(consumer, ids...)
	require.Equal(t, []string{"1"}, s.column("select distinct attempts::text from millrace.inbox"))
	require.Empty(t, s.dead(consumer))
}

// Twenty handlers need less than the close timeout: all finish, with a context that lives, and their offsets are committed.
func TestShutdownWaitsForHandlers(t *testing.T) {
	s := newSystem(t, 1)
	consumer := s.name("projection")
	messages, ids := orderEvents(20)
	s.produce(records(s.topic, messages)...)
	started, release := make(chan struct{}, 20), make(chan struct{})
	config := pipeline.Config{ConsumeOnly: true, CloseTimeout: 30 * time.Second}
	config.Subscriber.Parallelism = 20
	p := s.pipeline(config)
	require.NoError(t, p.Handle(consumer, s.topic, func(msg *message.Message) error {
		started <- struct{}{}
		<-release
		if err := msg.Context().Err(); err != nil {
			return err
		}
		return effect(msg.Context(), consumer, msg)
	}))
	ended := s.launch(p)
	for range ids {
		<-started
	}
	closed := s.closing(p)
	close(release)
	require.NoError(t, <-closed)
	require.NoError(t, <-ended)
	s.awaitEffects(consumer, ids...)
	require.Zero(t, s.lag(consumer, s.topic))
	require.Empty(t, s.dead(consumer))
}

// Handlers that do not look at their context are left behind: Close says so. Redone after the restart, they take effect once.
func TestShutdownLeavesStubbornHandlersBehind(t *testing.T) {
	s := newSystem(t, 1)
	consumer := s.name("projection")
	messages, ids := orderEvents(3)
	s.produce(records(s.topic, messages)...)
	started, release, left := make(chan struct{}, 3), make(chan struct{}), make(chan struct{}, 3)
	p := s.pipeline(pipeline.Config{ConsumeOnly: true, CloseTimeout: time.Second})
	p.Router().AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			defer func() { left <- struct{}{} }()
			return h(msg)
		}
	})
	require.NoError(t, p.Handle(consumer, s.topic, func(msg *message.Message) error {
		started <- struct{}{}
		<-release
		return effect(msg.Context(), consumer, msg)
	}))
	ended := s.launch(p)
	for range ids {
		<-started
	}
	began := time.Now()
	require.Error(t, p.Close())
	require.Error(t, <-ended)
	require.Less(t, time.Since(began), 30*time.Second)
	require.True(t, s.logged("messages:3"), "how many were not finished")
	close(release)
	for range ids {
		<-left
	}
	require.EqualValues(t, len(ids), s.lag(consumer, s.topic))

	s.consume(consumer, s.topic, apply(consumer))
	s.awaitCommitted(consumer, s.topic)
	s.awaitEffects(consumer, ids...)
	require.Empty(t, s.dead(consumer))
}

// A handler publishes through the outbox while everything around it closes: its output exists and its input is done.
func TestShutdownLosesNoOutput(t *testing.T) {
	s := newSystem(t, 1)
	consumer, output := s.name("reactor"), s.topic+".out"
	s.createTopic(output, 1)
	s.produce(copyOf(orderEvent("7", 1), s.topic, 0))
	started, release := make(chan struct{}), make(chan struct{})
	p := s.pipeline(pipeline.Config{CloseTimeout: 30 * time.Second})
	require.NoError(t, p.Handle(consumer, s.topic, func(msg *message.Message) error {
		close(started)
		<-release
		out := event.New("order.billed", nil, event.WithID("bill-7"), event.CausedBy(msg.Metadata[event.IDKey]))
		out.SetContext(msg.Context())
		return p.Outbox().Publish(output, out)
	}))
	ended := s.launch(p)
	<-started
	closed := s.closing(p)
	close(release)
	require.NoError(t, <-closed)
	require.NoError(t, <-ended)
	require.Zero(t, s.lag(consumer, s.topic))
	require.Equal(t, []string{"done"}, s.column("select state from millrace.inbox"))
	require.Equal(t, []string{"bill-7"}, s.column("select event_id from millrace.outbox"))
	s.topic = output
	s.relayOnce()
	require.Equal(t, []string{"bill-7"}, s.wire())
}
