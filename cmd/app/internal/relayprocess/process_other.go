//go:build !linux

package relayprocess

import (
	"errors"
	"syscall"
)

// ownGroup keeps a Ctrl-C meant for the parent from the relay, which the parent then stops in its own order.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// peakRSS has no source here; the memory in use is only told on Linux.
func peakRSS(int) (int64, error) { return 0, errors.ErrUnsupported }
