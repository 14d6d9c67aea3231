package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// specVariable marks a process as a supervisor and says what it is to start.
const specVariable = "MILLRACE_SERVICE_SPEC"

// lockTimeout bounds the wait for the previous user of a state directory, which may be a supervisor that is stopping
// its service because its parent was killed a moment ago.
const lockTimeout = 15 * time.Second

// errLocked says that another process kept a lock for longer than the wait for it.
var errLocked = errors.New("locked by another process")

func init() {
	if encoded := os.Getenv(specVariable); encoded != "" {
		os.Exit(supervise(encoded))
	}
}

// supervise runs one service until standard input ends. It runs on the main thread, which lives as long as the
// process: what is started from it may ask to die with this thread.
func supervise(encoded string) int {
	ctx, end := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer end()
	// Without this a parent that died before the report was read would kill this process before it stops the service.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()

	var s spec
	err := errors.Join(os.Unsetenv(specVariable), json.Unmarshal([]byte(encoded), &s))
	if err == nil {
		err = s.serve(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serve holds the lock on the state directory while it starts the service, reports it, waits for the end and stops it.
func (s spec) serve(ctx context.Context) error {
	unlock, err := lockFile(ctx, s.path("lock"), lockTimeout)
	if err != nil {
		tell(report{Error: err.Error(), InUse: errors.Is(err, errLocked)})
		return err
	}
	defer unlock()
	defer adoptOrphans()()
	ready, stop, err := s.start(ctx)
	if err != nil {
		if s.Temporary {
			err = errors.Join(err, os.RemoveAll(s.StateDir))
		}
		tell(report{Error: err.Error()})
		return err
	}
	tell(ready)
	<-ctx.Done()
	err = stop()
	if s.Temporary && err == nil {
		err = os.RemoveAll(s.StateDir)
	}
	return err
}

// tell prints the report. A parent that is gone can not read it, and standard input says so as well.
func tell(r report) { _ = json.NewEncoder(os.Stdout).Encode(r) }
