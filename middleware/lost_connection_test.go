package middleware_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/middleware"
)

// proxy passes a PostgreSQL connection on. Armed, it lets the next COMMIT through and cuts the connection without its answer.
type proxy struct {
	listener net.Listener
	server   string
	armed    atomic.Bool
	cut      atomic.Int32
	running  sync.WaitGroup
}

func newProxy(t *testing.T, dsn string) (*proxy, string) {
	t.Helper()
	address, err := url.Parse(dsn)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, server: address.Host}
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		p.running.Wait()
	})
	address.Host = listener.Addr().String()
	return p, address.String()
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	var silent atomic.Bool
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		defer client.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil || silent.Load() {
				return // the answer has been read, so the server has committed
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			break
		}
		if bytes.Contains(bytes.ToLower(buffer[:n]), []byte("commit")) && p.armed.CompareAndSwap(true, false) {
			silent.Store(true)
			p.cut.Add(1)
		}
		if _, err := server.Write(buffer[:n]); err != nil && !errors.Is(err, io.EOF) {
			break
		}
	}
	server.Close()
	<-answers
}

func TestALostAnswerToCommitIsNeitherASecondEffectNorADeadLetter(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			p, dsn := newProxy(t, r.dsn)
			db := testkit.Open(t, driver, dsn)
			var calls atomicCounter
			var seen error
			watch := func(h message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) {
					produced, err := h(msg)
					if err != nil {
						seen = err
					}
					return produced, err
				}
			}
			chain := r.chain()
			chain = append(chain[:len(chain)-1], watch, middleware.Dedup{DB: db}.Middleware)
			r.router(chain, map[string]message.NoPublishHandlerFunc{"projection": func(msg *message.Message) error {
				calls.add()
				p.armed.Store(true)
				return write(msg)
			}})
			r.deliver(event.New("order.paid", nil))

			require.EqualValues(t, 1, p.cut.Load())
			require.ErrorIs(t, seen, inbox.ErrOutcomeUnknown)
			require.Equal(t, 1, calls.get())
			require.Equal(t, 1, r.effects())
			require.Equal(t, 1, r.rows("done"))
			require.Empty(t, r.dead())
		})
	}
}

func TestAConnectionLostUnderTheHandlerIsAnOutage(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			handle := middleware.Dedup{DB: testkit.Open(t, driver, r.dsn), Consumer: "projection"}.Middleware(
				func(msg *message.Message) ([]*message.Message, error) {
					tx, _ := event.TxFromContext(msg.Context())
					var pid int
					if err := tx.QueryRowContext(msg.Context(), "select pg_backend_pid()").Scan(&pid); err != nil {
						return nil, err
					}
					if _, err := r.db.Exec("select pg_terminate_backend($1)", pid); err != nil {
						return nil, err
					}
					if err := write(msg); err == nil {
						panic("wrote over a dead connection")
					}
					return nil, errFailed // says nothing of the cause
				})
			_, err := handle(event.New("order.paid", nil))
			require.ErrorIs(t, err, errFailed)
			require.True(t, inbox.IsInfrastructure(err))
			require.Zero(t, r.count("select count(*) from millrace.inbox"))
		})
	}
}

func TestAFrozenProcessDoesNotHoldAnEventForEver(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			frozen, thaw := make(chan struct{}), make(chan struct{})
			zombie := middleware.Dedup{
				DB: testkit.Open(t, driver, r.dsn), Consumer: "projection", IdleTimeout: 300 * time.Millisecond,
			}.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				if err := write(msg); err != nil {
					return nil, err
				}
				close(frozen)
				<-thaw
				return nil, nil
			})
			msg := event.New("order.paid", []byte("{}"))
			zombieErr := make(chan error, 1)
			go func() { _, err := zombie(msg.Copy()); zombieErr <- err }()
			<-frozen

			_, err := middleware.Dedup{DB: testkit.Open(t, driver, r.dsn), Consumer: "projection"}.Middleware(
				func(msg *message.Message) ([]*message.Message, error) { return nil, write(msg) })(msg.Copy())
			require.NoError(t, err, "the new owner got the event when the server cut the frozen one off")
			close(thaw)
			require.True(t, inbox.IsInfrastructure(<-zombieErr))
			require.Equal(t, 1, r.effects())

			_, err = middleware.Dedup{DB: r.db, Consumer: "projection"}.Middleware(nil)(msg.Copy())
			require.NoError(t, err, "thawed, it finds the event done")
		})
	}
}

func TestTheWaitForAnotherTransactionIsBounded(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			holder, err := r.db.Begin()
			require.NoError(t, err)
			defer holder.Rollback() //nolint:errcheck // the end of the test
			_, err = holder.Exec(`insert into millrace.inbox (consumer, event_id, state, topic, payload_hash)
				values ('projection', 'e-1', 'done', 'orders', '')`)
			require.NoError(t, err)

			handle := middleware.DeadLetter{DB: r.db, Consumer: "projection"}.Middleware(
				middleware.Retry{MaxRetries: 1, InitialInterval: time.Millisecond}.Middleware(
					middleware.Timeout(patience)(middleware.Dedup{
						DB: testkit.Open(t, driver, r.dsn), Consumer: "projection", LockTimeout: 50 * time.Millisecond,
					}.Middleware(nil))))
			_, err = handle(event.New("order.paid", nil, event.WithID("e-1")))
			require.True(t, inbox.IsInfrastructure(err), "%v", err)
		})
	}
}
