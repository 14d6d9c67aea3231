package service

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// stopTimeout bounds a stop from the parent's side. It exceeds what a supervisor allows its service, so it only ever
// ends a supervisor that hangs.
const stopTimeout = time.Minute

// running keeps every process reachable until it is stopped: the garbage collector closes the files of what nobody refers
// to any more, and closing its standard input is what ends a supervisor.
var running sync.Map

// process is a supervisor seen from its parent. It owns no goroutine: standard input is a pipe that is only ever
// closed, standard output is read by startProcess itself.
type process struct {
	cmd   *exec.Cmd
	stdin *os.File
	log   string
	ready report

	stopped sync.Once
	err     error
}

// startProcess starts a supervisor and waits for its report.
func startProcess(ctx context.Context, s spec) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stateDir, err := filepath.Abs(s.StateDir)
	if err != nil {
		return nil, err
	}
	s.StateDir = stateDir
	owner, err := prepare(&s)
	if err != nil {
		return nil, err
	}
	p, stdout, err := launch(s, owner)
	if err != nil {
		return nil, err
	}
	defer stdout.Close()

	// Reading is the only wait of this function; a deadline in the past is how a pipe is told to give up.
	detach := context.AfterFunc(ctx, func() { _ = stdout.SetReadDeadline(time.Unix(1, 0)) })
	defer detach()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &p.ready)
	}
	switch {
	case err == nil && p.ready.Error == "":
		return p, nil
	case err == nil && p.ready.InUse:
		err = fmt.Errorf("%w: %s", ErrInUse, s.StateDir)
	case err == nil:
		err = errors.New(p.ready.Error)
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		err = fmt.Errorf("supervisor ended without a word%s", quoteTail(p.log))
	}
	_ = p.stop() // its exit status repeats the error already at hand
	return nil, err
}

func launch(s spec, owner *credential) (*process, *os.File, error) {
	encoded, err := json.Marshal(s)
	if err != nil {
		return nil, nil, err
	}
	executable, err := executablePath()
	if err != nil {
		return nil, nil, err
	}
	p := &process{cmd: exec.Command(executable), log: s.path("supervisor.log")}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	childIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer childIn.Close()
	stdout, childOut, err := os.Pipe()
	if err != nil {
		_ = stdin.Close()
		return nil, nil, err
	}
	defer childOut.Close()

	p.stdin = stdin
	p.cmd.Args = []string{"millrace-" + string(s.Kind)}
	p.cmd.Dir = "/"
	p.cmd.Env = append(inherited(), specVariable+"="+string(encoded))
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = childIn, childOut, log
	p.cmd.SysProcAttr = supervisorAttributes(owner)
	if err := p.cmd.Start(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start supervisor: %w", err), stdin.Close(), stdout.Close())
	}
	running.Store(p, nil)
	return p, stdout, nil
}

// inherited is this process's environment without PostgreSQL's client variables, which would redirect the tools and
// the health check of the new server to another one.
func inherited() []string {
	var kept []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PG") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// stop closes the supervisor's standard input and waits until it has stopped its service.
func (p *process) stop() error {
	p.stopped.Do(func() {
		defer running.Delete(p)
		_ = p.stdin.Close()
		overdue := time.AfterFunc(stopTimeout, func() { _ = p.cmd.Process.Kill() })
		defer overdue.Stop()
		err := p.cmd.Wait()
		// The embedded broker lives in its supervisor: killing the broker is killing the supervisor.
		killedWithService := p.ready.PID == p.cmd.Process.Pid && !p.cmd.ProcessState.Exited()
		if err != nil && !killedWithService {
			p.err = fmt.Errorf("supervisor: %w%s", err, quoteTail(p.log))
		}
	})
	return p.err
}
