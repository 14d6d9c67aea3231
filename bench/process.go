package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a relay may take to stop before it is killed.
const stopTimeout = 30 * time.Second

// process is a relay at work.
type process struct {
	command *exec.Cmd
	log     string
	ended   chan struct{}
}

// start starts a relay whose output goes to a file. It ends with stop, or with this process.
func start(command *exec.Cmd, log string) (*process, error) {
	file, err := os.Create(log) //nolint:gosec // in a directory of ours
	if err != nil {
		return nil, err
	}
	defer file.Close()
	command.Stdout, command.Stderr = file, file
	ownGroup(command)
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{command: command, log: log, ended: make(chan struct{})}
	go func() {
		_ = command.Wait() // the state tells
		close(p.ended)
	}()
	return p, nil
}

// stop has the relay finish and waits for it; one that does not is killed. A relay that had ended before failed.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the relay ended by itself (%s)%s", p.command.ProcessState, tail(p.log))
	default:
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
	}
	err := p.command.Process.Kill()
	<-p.ended
	return err
}

// cpu is the processor time of the whole life of a relay that was stopped.
func (p *process) cpu() time.Duration {
	return p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime()
}

// rss is the largest resident set so far, in bytes. The rusage of the end will not do: on Linux it begins with the size of
// the parent.
func (p *process) rss() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "VmHWM:"); found {
			var kib int64
			_, err := fmt.Sscanf(value, "%d kB", &kib)
			return kib * 1024, err
		}
	}
	return 0, errors.New("the relay has ended")
}

// await asks until ready says so, the relay ends or ctx does.
func (p *process) await(ctx context.Context, ready func(context.Context) (bool, error)) error {
	ticks := time.NewTicker(200 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-p.ended:
			return nil // stop says why
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks.C:
		}
		if ok, err := ready(ctx); ok || err != nil {
			return err
		}
	}
}

// tail is the end of a log, to be appended to an error.
func tail(log string) string {
	file, err := os.Open(log) //nolint:gosec // ours
	if err != nil {
		return ""
	}
	defer file.Close()
	const length = 3000
	if info, err := file.Stat(); err == nil && info.Size() > length {
		_, _ = file.Seek(-length, io.SeekEnd) // else all of it is shown
	}
	content, _ := io.ReadAll(io.LimitReader(file, length)) // as much as there is
	return "\nthe end of its log:\n" + string(content)
}
