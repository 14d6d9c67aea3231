package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/pipeline"
)

// The first attempt fails after its write, the second panics after it: neither leaves anything, the third counts.
func TestFailedAttemptsLeaveNothing(t *testing.T) {
	s := newSystem(t, 1)
	consumer := s.name("projection")
	var attempts counter
	s.consume(consumer, s.topic, handlers.Raw(func(ctx context.Context, _ *sql.Tx, msg *message.Message) error {
		if err := effect(ctx, consumer, msg); err != nil {
			return err
		}
		switch attempts.add(msg.UUID) {
		case 1:
			return errFailed
		case 2:
			panic("second attempt")
		}
		return nil
	}))
	msg := orderEvent("7", 1)
	s.produce(copyOf(msg, s.topic, 0))
	s.awaitCommitted(consumer, s.topic)
	s.awaitEffects(consumer, msg.UUID)
	require.Equal(t, 3, attempts.of(msg.UUID))
	require.Equal(t, []string{"done"}, s.column("select state from millrace.inbox"))
	require.Zero(t, s.count("select count(*) from millrace.outbox"), "no dead letter")
}

// Middleware of the user's own, outside and inside ours, changes neither the number of attempts nor what becomes of the event.
func TestAlwaysFailingHandlerIsTriedFourTimesThenDeadLetteredOnce(t *testing.T) {
	for name, own := range map[string]bool{"as it comes": false, "with middleware of the user's own": true} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, 1)
			consumer := s.name("projection")
			var outside, inside, attempts counter
			p := s.pipeline(pipeline.Config{ConsumeOnly: true})
			if own {
				p.Router().AddMiddleware(counting(&outside))
			}
			handler := func(msg *message.Message) error {
				if attempts.add(msg.UUID); msg.UUID == "bad" {
					return errFailed
				}
				return effect(msg.Context(), consumer, msg)
			}
			if own {
				require.NoError(t, p.Handle(consumer, s.topic, handler, counting(&inside)))
			} else {
				require.NoError(t, p.Handle(consumer, s.topic, handler))
			}
			s.start(p)
			bad := event.New("bad", []byte("{}"), event.WithID("bad"))
			good := orderEvent("7", 1)
			s.produce(copyOf(bad, s.topic, 0), copyOf(good, s.topic, 0))

			s.awaitCommitted(consumer, s.topic)
			s.awaitEffects(consumer, good.UUID)
			require.Equal(t, 4, attempts.of("bad"))
			if own {
				require.Equal(t, 4, inside.of("bad"))
				require.Equal(t, 1, outside.of("bad"))
			}
			dead := s.dead(consumer)
			require.Len(t, dead, 1)
			require.Equal(t, 4, dead[0].Attempts)
			require.Equal(t, inbox.ClassTransient, dead[0].ErrorClass)
			require.Equal(t, []string{s.topic + ".dlq"}, s.column("select topic from millrace.outbox"))
		})
	}
}

func counting(c *counter) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			c.add(msg.UUID)
			return h(msg)
		}
	}
}

func write(m map[string]int) { m["x"] = 1 }

func TestPanicsEndAsDeadLettersWithAStack(t *testing.T) {
	s := newSystem(t, 2)
	consumer := s.name("projection")
	endings := map[string]func(){
		"error":   func() { panic(errors.New("panicked with an error")) },
		"string":  func() { panic("panicked with a string") },
		"nil map": func() { write(nil) },
		"Goexit":  runtime.Goexit,
	}
	var attempts counter
	s.consume(consumer, s.topic, func(msg *message.Message) error {
		attempts.add(msg.UUID)
		if err := effect(msg.Context(), consumer, msg); err != nil {
			return err
		}
		if end, ok := endings[msg.UUID]; ok {
			end()
		}
		return nil
	})
	var records []*kgo.Record
	for id := range endings {
		records = append(records, copyOf(event.New("bad", nil, event.WithID(id), event.PartitionKey(id)), s.topic, 0))
	}
	messages, ids := orderEvents(20)
	for i, msg := range messages {
		records = append(records, copyOf(msg, s.topic, int32(i%2)))
	}
	s.produce(records...)
	s.awaitCommitted(consumer, s.topic)
	s.awaitEffects(consumer, ids...)
	dead := s.dead(consumer)
	require.Len(t, dead, len(endings))
	for _, d := range dead {
		require.Contains(t, endings, d.EventID)
		require.Equal(t, 4, attempts.of(d.EventID))
		require.Equal(t, inbox.ClassPanic, d.ErrorClass)
		require.Contains(t, d.Stack, "failing_handler_ends_as_dead_letter_test.go")
	}
}
