package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/middleware"
)

func fails(n int, err error, calls *int) message.HandlerFunc {
	return func(*message.Message) ([]*message.Message, error) {
		if *calls++; *calls <= n {
			return nil, err
		}
		return nil, nil
	}
}

func TestRetryKeepsFirstAndLastError(t *testing.T) {
	calls := 0
	_, err := middleware.Retry{MaxRetries: 2, InitialInterval: time.Nanosecond}.Middleware(
		func(*message.Message) ([]*message.Message, error) {
			calls++
			return nil, fmt.Errorf("attempt %d", calls)
		},
	)(message.NewMessage("", nil))
	var retried *middleware.RetryError
	require.ErrorAs(t, err, &retried)
	require.Equal(t, 3, retried.Attempts)
	require.EqualError(t, retried.First, "attempt 1")
	require.EqualError(t, err, "attempt 3")
}

func TestRetriesAreOffWhereSaid(t *testing.T) {
	calls := 0
	_, err := middleware.Retry{MaxRetries: middleware.NoRetries}.Middleware(fails(9, errFailed, &calls))(message.NewMessage("", nil))
	require.ErrorIs(t, err, errFailed)
	require.Equal(t, 1, calls)
}

func TestAPermanentErrorIsNotRetried(t *testing.T) {
	calls := 0
	_, err := middleware.Retry{}.Middleware(fails(9, event.Permanent(errFailed), &calls))(message.NewMessage("", nil))
	require.True(t, event.IsPermanent(err))
	require.Equal(t, 1, calls)
}

func TestAnOutageSpendsNoAttempt(t *testing.T) {
	outage := &net.OpError{Op: "read", Err: errors.New("reset")}
	calls := 0
	handle := middleware.Retry{InitialInterval: time.Nanosecond}.Middleware(func(*message.Message) ([]*message.Message, error) {
		if calls++; calls <= 3 {
			return nil, outage
		}
		return nil, errFailed
	})
	_, err := handle(message.NewMessage("", nil))
	var retried *middleware.RetryError
	require.ErrorAs(t, err, &retried)
	require.Equal(t, 4, retried.Attempts)
	require.Equal(t, 7, calls)

	calls = 0
	_, err = middleware.Retry{InitialInterval: time.Nanosecond}.Middleware(fails(99, outage, &calls))(message.NewMessage("", nil))
	require.Equal(t, outage, err, "given back for another delivery")
	require.Equal(t, 4, calls)
}

func TestPausesGrowToTheirLimit(t *testing.T) {
	var pauses []time.Duration
	calls := 0
	_, _ = middleware.Retry{
		MaxRetries: 4, InitialInterval: time.Microsecond, MaxInterval: 3 * time.Microsecond, Jitter: middleware.NoJitter,
		OnRetryHook: func(_ int, delay time.Duration) { pauses = append(pauses, delay) },
	}.Middleware(fails(9, errFailed, &calls))(message.NewMessage("", nil))
	us := time.Microsecond
	require.Equal(t, []time.Duration{us, 2 * us, 3 * us, 3 * us}, pauses)
}

func TestEachAttemptHasItsFullTime(t *testing.T) {
	msg := message.NewMessage("", nil)
	calls := 0
	handle := middleware.Retry{InitialInterval: time.Nanosecond}.Middleware(middleware.Timeout(50 * time.Millisecond)(
		func(msg *message.Message) ([]*message.Message, error) {
			if calls++; calls == 1 {
				<-msg.Context().Done()
				return nil, event.Permanent(msg.Context().Err())
			}
			return nil, msg.Context().Err()
		}))
	_, err := handle(msg)
	require.NoError(t, err, "running out of time is transient, whatever the handler calls it")
	require.Equal(t, 2, calls)
	require.NoError(t, msg.Context().Err())
}

func TestRunningOutOfTimeIsAFailureOfTheEvent(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			db := testkit.Open(t, driver, r.dsn)
			chain := []message.HandlerMiddleware{
				middleware.DeadLetter{DB: db}.Middleware,
				middleware.Retry{MaxRetries: 1, InitialInterval: time.Millisecond}.Middleware,
				middleware.Timeout(300 * time.Millisecond),
				middleware.Dedup{DB: db}.Middleware,
			}
			r.router(chain, map[string]message.NoPublishHandlerFunc{"projection": func(msg *message.Message) error {
				tx, _ := event.TxFromContext(msg.Context())
				_, err := tx.ExecContext(msg.Context(), "select pg_sleep(60)")
				return err
			}})
			r.deliver(event.New("order.paid", nil))
			dead := r.dead()
			require.Len(t, dead, 1)
			require.Equal(t, inbox.ClassTimeout, dead[0].ErrorClass)
			require.Equal(t, 2, dead[0].Attempts)
		})
	}
}

func TestDedupBoundsTheHandlerByItself(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			handle := middleware.Dedup{DB: testkit.Open(t, driver, r.dsn), Consumer: "projection", HandlerTimeout: 100 * time.Millisecond}.Middleware(
				func(msg *message.Message) ([]*message.Message, error) {
					tx, _ := event.TxFromContext(msg.Context())
					_, err := tx.ExecContext(msg.Context(), "select pg_sleep(60)")
					return nil, err
				})
			_, err := handle(event.New("order.paid", nil))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.False(t, inbox.IsInfrastructure(err))
		})
	}
}

func TestRecovererSurvivesEveryWayOfNotReturning(t *testing.T) {
	for name, misbehave := range map[string]func(){
		"error": func() { panic(errFailed) }, "string": func() { panic("text") }, "nil": func() { panic(nil) }, "Goexit": runtime.Goexit, //nolint:govet // on purpose
	} {
		t.Run(name, func(t *testing.T) {
			produced, err := middleware.Recoverer(func(msg *message.Message) ([]*message.Message, error) {
				misbehave()
				return []*message.Message{msg}, nil
			})(message.NewMessage("", nil))
			var panicked *middleware.PanicError
			require.ErrorAs(t, err, &panicked)
			require.Contains(t, string(panicked.Stack), "attempt_test.go")
			require.Nil(t, produced)
		})
	}
	produced, err := middleware.Recoverer(func(msg *message.Message) ([]*message.Message, error) {
		return []*message.Message{msg}, nil
	})(message.NewMessage("", nil))
	require.NoError(t, err)
	require.Len(t, produced, 1)
}

func TestInvalidConfigurationsNameEveryField(t *testing.T) {
	err := middleware.Retry{MaxRetries: -2, InitialInterval: -1, Multiplier: 0.5, Jitter: 2}.Validate()
	for _, field := range []string{"MaxRetries", "InitialInterval", "Multiplier", "Jitter"} {
		require.ErrorContains(t, err, field)
	}
	err = middleware.Dedup{HandlerTimeout: -1, IdleTimeout: -1, LockTimeout: -1, OutboxTopic: "a b"}.Validate()
	for _, field := range []string{"DB", "HandlerTimeout", "IdleTimeout", "LockTimeout", "a b"} {
		require.ErrorContains(t, err, field)
	}
	require.ErrorContains(t, middleware.DeadLetter{MaxBytes: -1}.Validate(), "MaxBytes")
	_, err = middleware.Retry{Multiplier: -1}.Middleware(nil)(message.NewMessageWithContext(context.Background(), "", nil))
	require.True(t, inbox.IsInfrastructure(err))
}
