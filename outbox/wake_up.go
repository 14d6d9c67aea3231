package outbox

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	// probeInterval is how long a listener believes in a connection that says nothing: the price is one empty statement.
	probeInterval = 90 * time.Second

	// answerBound is for whatever the server has to answer: connecting, LISTEN, a probe.
	answerBound = 10 * time.Second

	// maxChannel is how long a channel's name may be, in bytes.
	maxChannel = 63
)

// listener holds a connection on which PostgreSQL tells of new events. It is no more than a hint: while there is no
// connection, or if a notification is lost, the relay finds the events by polling.
//
// It speaks the protocol over a connection that pgconn has made, because both the waiting and the probing are then reads with
// a deadline in one goroutine, which Close ends at any moment. pq.Listener can be closed neither while it dials nor while a
// probe is unanswered.
type listener struct {
	C <-chan struct{} // gets one wake-up for all there were since the last was taken

	config        SubscriberConfig
	logger        watermill.LoggerAdapter
	probeInterval time.Duration
	answerBound   time.Duration
	wakeUps       chan struct{}
	cancel        context.CancelFunc
	ended         chan struct{}
	stats         *counters
}

func newListener(config SubscriberConfig, logger watermill.LoggerAdapter) *listener {
	wakeUps := make(chan struct{}, 1)
	return &listener{
		C: wakeUps, config: config, logger: logger, probeInterval: probeInterval, answerBound: answerBound,
		wakeUps: wakeUps, ended: make(chan struct{}), stats: newCounters(),
	}
}

// start begins to listen. The caller closes the listener.
func (l *listener) start() {
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	go l.run(ctx)
}

// Close ends the listener and waits for it.
func (l *listener) Close() {
	l.cancel()
	<-l.ended
}

// run listens on one connection after another.
func (l *listener) run(ctx context.Context) {
	defer close(l.ended)
	failures, lost := 0, false
	for {
		connected := false
		began := time.Now()
		err := l.listen(ctx, func() {
			if lost {
				l.logger.Info("The connection for wake-ups is back", nil)
			}
			lost = false
			connected = true
			l.stats.connected.Add(1)
			l.wake() // something may have been missed
		})
		if connected {
			l.stats.connected.Add(-1)
		}
		if ctx.Err() != nil {
			return
		}
		if !lost {
			lost = true
			l.logger.Error("The connection for wake-ups is lost; polling, and trying again until it is back", err, nil)
		}
		if time.Since(began) > l.config.MaxBackoff {
			failures = 0
		}
		pause := time.NewTimer(backoff(failures, l.config.MinBackoff, l.config.MaxBackoff))
		failures++
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// wake leaves a wake-up, unless one is waiting.
func (l *listener) wake() {
	select {
	case l.wakeUps <- struct{}{}:
	default:
	}
}

// listen connects, calls listening once the server listens, and wakes the relay with each notification until the connection
// is lost or ctx ends.
func (l *listener) listen(ctx context.Context, listening func()) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Conn.Close() })()
	listens, asked := false, true
	if err := l.ask(conn, "listen "+quoteIdentifier(wakeUpChannel(l.config.Schema))); err != nil {
		return err
	}
	for {
		msg, err := conn.Frontend.Receive()
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout() && !asked:
			asked = true
			if err := l.ask(conn, ""); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		switch msg := msg.(type) {
		case *pgproto3.NotificationResponse:
			l.stats.wakeUps.Add(1)
			l.wake()
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(msg)
		case *pgproto3.ReadyForQuery:
			if !listens {
				listens = true
				listening()
			}
			asked = false
			if err := conn.Conn.SetReadDeadline(time.Now().Add(l.probeInterval)); err != nil {
				return err
			}
		}
	}
}

func (l *listener) connect(ctx context.Context) (*pgconn.HijackedConn, error) {
	config, err := listenConfig(l.config.DirectURL)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.answerBound)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, config)
	var connecting *pgconn.ConnectError
	if errors.As(err, &connecting) {
		return nil, connecting.Unwrap() // without user and database
	}
	if err != nil {
		return nil, err
	}
	return conn.Hijack()
}

// ask sends a statement that has to be answered in time.
func (l *listener) ask(conn *pgconn.HijackedConn, statement string) error {
	if err := conn.Conn.SetDeadline(time.Now().Add(l.answerBound)); err != nil {
		return err
	}
	conn.Frontend.Send(&pgproto3.Query{String: statement})
	return conn.Frontend.Flush()
}

// listenConfig parses a DirectURL. The error does not repeat it: it may hold a password.
func listenConfig(url string) (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, errors.New("DirectURL is no connection string, or names a file that cannot be read")
	}
	for _, ofAnotherDriver := range []string{"binary_parameters", "disable_prepared_binary_result"} { // lib/pq
		delete(config.RuntimeParams, ofAnotherDriver)
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "millrace wake-up"
	}
	return config, nil
}

// wakeUpChannel is the channel on which migration 4 notifies. Schemas with names so long and so alike that they share it wake
// each other's relays, and nothing else.
func wakeUpChannel(schema string) string {
	channel := "outbox_wake_up_" + schema
	return channel[:min(len(channel), maxChannel)]
}
