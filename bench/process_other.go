//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps a Ctrl-C meant for this process from the relay.
func ownGroup(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
