package middleware_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	wmmiddleware "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/middleware"
)

// publish does not wait: the router is closed before the message is acknowledged.
func (r *rig) publishUnanswered(msg *message.Message) (ended <-chan error) {
	done := make(chan error, 1)
	go func() { done <- r.source.Publish("orders", msg) }()
	return done
}

func TestAShutdownIsNotAFailure(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			stockPoison := &recorder{}
			stock, err := wmmiddleware.PoisonQueue(stockPoison, "stock.dlq")
			require.NoError(t, err)
			entered := make(chan struct{})
			var attempts atomicCounter
			chain := append([]message.HandlerMiddleware{stock}, r.chain()...)
			chain[len(chain)-1] = middleware.Dedup{DB: testkit.Open(t, driver, r.dsn)}.Middleware
			stop := r.router(chain, map[string]message.NoPublishHandlerFunc{"projection": func(msg *message.Message) error {
				attempts.add()
				tx, _ := event.TxFromContext(msg.Context())
				close(entered)
				_, err := tx.ExecContext(msg.Context(), "select pg_sleep(60)")
				return err
			}})
			msg := event.New("order.paid", nil)
			ended := r.publishUnanswered(msg)
			<-entered
			// lib/pq asks the server once to cancel; a request that comes before the statement is lost.
			r.eventually(`select count(*) from pg_stat_activity where datname = current_database() and query = 'select pg_sleep(60)'
				and wait_event = 'PgSleep'`)
			stop()
			require.NoError(t, <-ended)

			require.Equal(t, 1, attempts.get())
			require.Zero(t, r.count("select count(*) from millrace.inbox"))
			require.Empty(t, r.published())
			require.Empty(t, stockPoison.messages, "a stock poison queue outside sees no failure either")

			r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": write})
			r.deliver(msg)
			require.Equal(t, 1, r.effects())
		})
	}
}

func TestAPermanentErrorDuringAShutdownIsNotADeadLetterEither(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	msg := message.NewMessageWithContext(ctx, "", nil)
	_, err := middleware.DeadLetter{DB: r.db, Consumer: "projection"}.Middleware(
		func(*message.Message) ([]*message.Message, error) { cancel(); return nil, event.Permanent(errFailed) })(msg)
	require.ErrorIs(t, err, event.ErrNotAttempted)
	require.ErrorIs(t, err, context.Canceled, "routers do not log it")
	require.Empty(t, r.dead())
}

func TestAHandlerThatSucceedsDuringAShutdownCommitsAndIsAcknowledged(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			ctx, cancel := context.WithCancel(context.Background())
			handle := middleware.Drain(middleware.Dedup{
				DB: testkit.Open(t, driver, r.dsn), Consumer: "projection", Outbox: r.outbox, OutboxTopic: "invoices",
			}.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				if err := write(msg); err != nil {
					return nil, err
				}
				cancel()
				return []*message.Message{event.New("invoice.due", nil)}, nil
			}))
			msg := event.New("order.paid", nil)
			msg.SetContext(ctx)
			_, err := handle(msg)
			require.NoError(t, err)
			require.True(t, msg.Ack(), "it was not nacked")
			require.Equal(t, 1, r.effects())
			require.Equal(t, 1, r.rows("done"))
			require.Len(t, r.published(), 1)
		})
	}
}

func TestADeliveryIsNotBegunAfterItsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	msg := message.NewMessageWithContext(ctx, "", nil)
	_, err := middleware.Drain(nil)(msg)
	require.NoError(t, err)
	require.False(t, msg.Ack())
}

func TestAShutdownEndsThePauseOfARetryAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	msg := message.NewMessageWithContext(ctx, "", nil)
	handle := middleware.Retry{
		InitialInterval: time.Hour, MaxInterval: time.Hour, OnRetryHook: func(int, time.Duration) { cancel() },
	}.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, errFailed })
	_, err := handle(msg)
	require.ErrorIs(t, err, errFailed)
}

func TestAShutdownEndsTheWaitForAnotherTransaction(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			holder, err := r.db.Begin()
			require.NoError(t, err)
			defer holder.Rollback() //nolint:errcheck // the end of the test
			_, err = holder.Exec(`insert into millrace.inbox (consumer, event_id, state, topic, payload_hash)
				values ('projection', 'e-1', 'done', 'orders', '')`)
			require.NoError(t, err)

			ctx, cancel := context.WithCancel(context.Background())
			msg := event.New("order.paid", nil, event.WithID("e-1"))
			msg.SetContext(ctx)
			ended := make(chan error, 1)
			go func() {
				_, err := middleware.Dedup{DB: testkit.Open(t, driver, r.dsn), Consumer: "projection", LockTimeout: time.Hour}.Middleware(nil)(msg)
				ended <- err
			}()
			require.Eventually(t, func() bool {
				return r.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 1
			}, patience, tick)
			cancel()
			require.True(t, inbox.IsInfrastructure(<-ended))
		})
	}
}
