package relayprocess

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ownGroup keeps a Ctrl-C meant for the parent from the relay, which the parent then stops in its own order, and has the
// relay end if the parent is killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// peakRSS reads the largest resident set of a running process. Its rusage will not do: Linux lets it begin with the size of
// the parent, in whose memory the child was born.
func peakRSS(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
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
	return 0, fmt.Errorf("process %d has ended", pid)
}
