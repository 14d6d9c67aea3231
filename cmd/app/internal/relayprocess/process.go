package relayprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a relay may take to stop before it is killed.
const stopTimeout = 20 * time.Second

// Config says what a relay works on.
type Config struct {
	DatabaseURL string
	Schema      string
	// Environment is further configuration, "MILLRACE_RELAY_LEASE=2s" for instance, before which the parent's gives way.
	Environment []string
	// Log gets what the relay says.
	Log io.Writer
}

// Process is a running relay. Its methods are safe for concurrent use.
type Process struct {
	command *exec.Cmd
	exited  chan struct{}
	err     error
}

// Start starts a relay. It ends with Stop, Kill, or this process.
func Start(config Config) (*Process, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start relay: %w", err)
	}
	command := exec.Command(executable, "run", "--roles", "relay") //nolint:noctx,gosec // itself; Stop ends it, in its own time
	command.Args[0] = os.Args[0]
	command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MILLRACE_DATABASE_URL_FILE=") // not both
	}), "MILLRACE_DATABASE_URL="+config.DatabaseURL, "MILLRACE_SCHEMA="+config.Schema, "MILLRACE_LISTEN=127.0.0.1:0")
	command.Env = append(command.Env, config.Environment...)
	command.Stdout, command.Stderr = config.Log, config.Log
	command.SysProcAttr = ownGroup()
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start relay: %w", err)
	}
	p := &Process{command: command, exited: make(chan struct{})}
	go func() {
		p.err = command.Wait()
		close(p.exited)
	}()
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Kill ends the process the way a power cut does and waits for it.
func (p *Process) Kill() error {
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill relay: %w", err)
	}
	<-p.exited
	return nil
}

// Stop has the relay finish what is in flight, and waits for it. It is an error if it had ended before, by itself. After Kill
// or Stop it does nothing.
func (p *Process) Stop() error {
	select {
	case <-p.exited:
		return p.outcome()
	default:
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop relay: %w", err)
	}
	select {
	case <-p.exited:
		return p.outcome()
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("relay %d did not stop within %s", p.PID(), stopTimeout), p.Kill())
	}
}

// outcome is how the process ended; having been killed is no error.
func (p *Process) outcome() error {
	if status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() || p.err == nil {
		return nil
	}
	return fmt.Errorf("relay %d: %w", p.PID(), p.err)
}

// PeakRSS is the largest resident set so far, in bytes. The process runs. Linux only: elsewhere errors.ErrUnsupported.
func (p *Process) PeakRSS() (int64, error) { return peakRSS(p.PID()) }

// CPU is the processor time the process has used in all its life. It waits for its end.
func (p *Process) CPU() time.Duration {
	<-p.exited
	return p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime()
}

// Wait waits until ready says so, the process ends, or ctx does.
func (p *Process) Wait(ctx context.Context, ready func(context.Context) (bool, error)) error {
	for {
		ok, err := ready(ctx)
		if ok || err != nil {
			return err
		}
		select {
		case <-p.exited:
			return errors.Join(fmt.Errorf("relay %d ended by itself", p.PID()), p.err)
		case <-ctx.Done():
			return fmt.Errorf("relay %d did not become ready: %w", p.PID(), ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Brokers is the environment that names the brokers.
func Brokers(brokers []string) string { return "MILLRACE_KAFKA_BROKERS=" + strings.Join(brokers, ",") }
