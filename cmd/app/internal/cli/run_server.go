package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

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
			Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
			WriteTimeout: 15 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		},
		listener: listener,
		ended:    make(chan struct{}),
	}
	go func() {
		defer close(s.ended)
		s.err = s.http.Serve(listener)
	}()
	return s, nil
}

func (s *server) address() string { return s.listener.Addr().String() }

// close waits for requests that are being answered. It is an error if the server had ended before, by itself.
func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	<-s.ended
	if !errors.Is(s.err, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("health and metrics ended by themselves: %w", s.err))
	}
	return err
}
