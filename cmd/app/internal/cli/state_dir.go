package cli

import (
	"fmt"
	"os"
	"syscall"
)

// nobody is the user PostgreSQL runs as for root, who hands directories over to it.
const nobody = 65534

// makeStateDir makes the directory unless it is there. One of another user is refused: that user could redirect what is
// written there, or say which servers run there.
func makeStateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL's user enters it
		return usage{fmt.Errorf("--state-dir: %w", err)}
	}
	for _, look := range []func(string) (os.FileInfo, error){os.Lstat, os.Stat} {
		info, err := look(dir)
		if err != nil {
			return usage{fmt.Errorf("--state-dir: %w", err)}
		}
		if !ours(info) {
			return usage{fmt.Errorf("--state-dir %s belongs to another user, who could redirect what is written there: choose another directory", dir)}
		}
	}
	return nil
}

func ours(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	user := os.Geteuid()
	return int(stat.Uid) == user || user == 0 && stat.Uid == nobody
}
