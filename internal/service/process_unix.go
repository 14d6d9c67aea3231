//go:build unix

package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// credential is the user a service runs as when it can not run as root.
type credential struct{ uid, gid int }

// nobody owns nothing on any system, and PostgreSQL does not ask for a name.
var nobody = credential{uid: 65534, gid: 65534}

// owns says whether a directory belongs to the user or to root.
func (c credential) owns(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == c.uid)
}

// mayEnter says whether the user may pass through a directory, as far as owner and mode tell.
func (c credential) mayEnter(dir string) (bool, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return false, err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == c.uid {
		return info.Mode()&0o100 != 0, nil
	}
	return info.Mode()&0o001 != 0, nil
}

// supervisorAttributes puts a supervisor into a session of its own: Ctrl-C at the parent's terminal is for the parent
// to act on, while the services it is still using stay up.
func supervisorAttributes(owner *credential) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true}
	if owner != nil {
		attributes.Credential = &syscall.Credential{Uid: uint32(owner.uid), Gid: uint32(owner.gid)}
	}
	return attributes
}

// lockFile takes the exclusive lock on a file, which the kernel releases when this process ends. It fails with
// errLocked when another process keeps the lock for longer than the timeout.
func lockFile(ctx context.Context, path string, timeout time.Duration) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%w: %s", errLocked, path), file.Close())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Alive says whether a process runs. One that was killed stays visible until its parent asks for its status, which
// the first process of a container may never do: it does not count.
func Alive(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !exists("/proc/self/stat")
	}
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// terminate asks a process to end.
func terminate(process *os.Process) error { return process.Signal(syscall.SIGTERM) }
