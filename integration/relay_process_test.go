package integration_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/lib/pq" // driver "postgres"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
)

// relayVariable marks a process as a relay and says what it is to do.
const relayVariable = "MILLRACE_TEST_RELAY"

// relayOrder is what a relay process is told.
type relayOrder struct {
	DSN     string
	Brokers []string
	Lease   time.Duration
	// Signal is sent by the process to itself when the broker has acknowledged the first event and nobody else knows yet.
	Signal syscall.Signal
}

// relayProcess is a relay as the only thing in its process. It prints "fenced" when receipts of it were refused, and ends
// with its standard input.
func relayProcess(encoded string) int {
	var order relayOrder
	if err := json.Unmarshal([]byte(encoded), &order); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := order.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (o relayOrder) run() error {
	db, err := sql.Open("postgres", o.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: kafka.Connection{Brokers: o.Brokers}}, nil)
	if err != nil {
		return err
	}
	defer publisher.Close()
	config := outbox.SubscriberConfig{Lease: o.Lease, PollInterval: 20 * time.Millisecond}
	f, err := forwarder.NewForwarder(db, &signalling{Publisher: publisher, signal: o.Signal}, forwarder.Config{Outbox: config}, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		cancel()
	}()
	go func() {
		for ticks := time.Tick(tick); ctx.Err() == nil; <-ticks {
			if f.Stats().Fenced > 0 {
				fmt.Println("fenced")
				return
			}
		}
	}()
	return f.Run(ctx)
}

// signalling sends its own process a signal between the broker's acknowledgement and the receipt, once.
type signalling struct {
	*kafka.Publisher
	signal syscall.Signal
	done   bool
}

func (p *signalling) Produce(
	ctx context.Context, topic string, generation uint64, msgs []*message.Message, onResult func(int, event.Receipt, error),
) {
	p.Publisher.Produce(ctx, topic, generation, msgs, func(i int, receipt event.Receipt, err error) {
		if err == nil && p.signal != 0 && !p.done {
			p.done = true
			continued := make(chan os.Signal, 1)
			signal.Notify(continued, syscall.SIGCONT)
			_ = syscall.Kill(os.Getpid(), p.signal)
			<-continued // the signal may take a moment to reach every thread
		}
		onResult(i, receipt, err)
	})
}

// child is a running relay process.
type child struct {
	cmd    *exec.Cmd
	fenced chan struct{}
}

// startRelayProcess starts a relay in a process of its own, which is gone when the test ends.
func (s *system) startRelayProcess(lease time.Duration, signal syscall.Signal) *child {
	s.t.Helper()
	order, err := json.Marshal(relayOrder{DSN: s.dsn, Brokers: s.brokers, Lease: lease, Signal: signal})
	require.NoError(s.t, err)
	executable, err := os.Executable()
	require.NoError(s.t, err)
	c := &child{cmd: exec.Command(executable), fenced: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), relayVariable+"="+string(order))
	c.cmd.Stderr = os.Stderr
	input, err := c.cmd.StdinPipe()
	require.NoError(s.t, err)
	output, err := c.cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, c.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if lines.Text() == "fenced" {
				close(c.fenced)
			}
		}
	}()
	s.t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = input.Close()
		<-read
		_ = c.cmd.Wait()
	})
	return c
}

// await waits until the kernel says that the process was stopped or ended by the signal.
func (c *child) await(s *system, signal syscall.Signal) {
	s.t.Helper()
	s.await(func() bool {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		return err == nil && (status.Stopped() && status.StopSignal() == signal || status.Signaled() && status.Signal() == signal)
	})
}

func (c *child) signal(s *system, signal syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(c.cmd.Process.Pid, signal))
}
