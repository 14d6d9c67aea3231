package service

import (
	"errors"
	"syscall"
	"time"
)

// prSetChildSubreaper is Linux's number for the request, which package syscall does not name.
const prSetChildSubreaper = 36

// reapTimeout bounds the wait for processes whose server is gone already.
const reapTimeout = 5 * time.Second

// executablePath is the file this process runs from, also after that file was replaced or removed.
func executablePath() (string, error) { return "/proc/self/exe", nil }

// boundToSupervisor lets the kernel kill a child when its supervisor is killed. It holds for the thread that started
// the child, which for a supervisor is the main one.
func boundToSupervisor() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of what its children leave behind, as PostgreSQL's start tool leaves the
// server, and returns how to collect them once nothing else is waited for. The first process of a container often does
// not, and a server that was stopped would stay visible for ever.
func adoptOrphans() (reap func()) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0) // refused means they stay visible
	return func() {
		for deadline := time.Now().Add(reapTimeout); time.Now().Before(deadline); {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err != nil && !errors.Is(err, syscall.EINTR) {
				return // none is left
			}
			if pid == 0 {
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
}
