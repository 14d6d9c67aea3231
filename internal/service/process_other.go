//go:build unix && !linux

package service

import (
	"os"
	"syscall"
)

// executablePath is the file this process runs from.
func executablePath() (string, error) { return os.Executable() }

// boundToSupervisor asks for nothing: only Linux can tie a child to its parent. The supervisor still stops its child
// whenever it ends by itself.
func boundToSupervisor() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// adoptOrphans leaves orphans to the first process, which outside Linux's containers collects them.
func adoptOrphans() (reap func()) { return func() {} }
