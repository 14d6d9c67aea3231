package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps a Ctrl-C meant for this process from the relay, and has the relay end if this process is killed.
func ownGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
