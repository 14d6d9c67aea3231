package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConnections is how many clients are served at once; others wait to be accepted. The slow are cut off after the
// timeouts below, so a place is free after seconds.
const maxConnections = 512

// server serves health and metrics.
type server struct {
	http     *http.Server
	listener net.Listener
	ended    chan struct{} // closed when it serves no longer
	err      error         // why, then
}

func serve(ctx context.Context, address string, handler http.Handler) (*server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w (choose another with --listen)", err)
	}
	s := &server{
		http: &http.Server{
			Handler: http.MaxBytesHandler(handler, 1<<20), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
			WriteTimeout: 15 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		},
		listener: listener,
		ended:    make(chan struct{}),
	}
	go func() {
		defer close(s.ended)
		s.err = s.http.Serve(newBoundedListener(listener, maxConnections))
	}()
	return s, nil
}

func (s *server) address() string { return s.listener.Addr().String() }

// close waits for requests that are being answered, but not for clients that are slow. It is an error if the server had
// ended before, by itself.
func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	<-s.ended
	if !errors.Is(s.err, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("health and metrics ended by themselves: %w", s.err))
	}
	return err
}

// boundedListener accepts so many connections at once.
type boundedListener struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	close  func() error
}

func newBoundedListener(l net.Listener, n int) *boundedListener {
	b := &boundedListener{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{})}
	b.close = sync.OnceValue(func() error {
		close(b.closed)
		return l.Close()
	})
	return b
}

// Accept waits for a connection and a place for it.
func (b *boundedListener) Accept() (net.Conn, error) {
	select {
	case b.places <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	return &boundedConn{Conn: conn, leave: sync.OnceFunc(func() { <-b.places })}, nil
}

// Close ends Accept too.
func (b *boundedListener) Close() error { return b.close() }

// boundedConn gives its place back when it is closed.
type boundedConn struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
