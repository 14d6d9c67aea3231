package service

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// DefaultStateDir is where services keep their data when nothing else is asked for: below the user's cache directory,
// and for root, whose home PostgreSQL's user can not enter, below the temporary directory.
func DefaultStateDir() string {
	if cache, err := os.UserCacheDir(); err == nil && os.Geteuid() != 0 {
		return filepath.Join(cache, "millrace", "state")
	}
	return filepath.Join(os.TempDir(), "millrace-state")
}

// cacheDir is where downloads of a user are kept. It may not exist.
func cacheDir(stateDir string, owner *credential) string {
	if owner != nil {
		return filepath.Join("/var/cache", "millrace")
	}
	if cache, err := os.UserCacheDir(); err == nil {
		return filepath.Join(cache, "millrace")
	}
	return filepath.Join(stateDir, "cache")
}

// prepare makes the directories of a service and, when it must run as another user, gives them to that user.
func prepare(s *spec) (*credential, error) {
	var owner *credential
	if s.Kind == kindPostgres && os.Geteuid() == 0 {
		owner = &nobody
	}
	if err := os.MkdirAll(s.StateDir, 0o755); err != nil {
		return nil, err
	}
	if owner != nil {
		if err := owner.admit(s.StateDir, s.Temporary); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(s.dir(), 0o700); err != nil {
		return nil, err
	}
	s.CacheDir = cacheDir(s.StateDir, owner)
	if err := os.MkdirAll(s.CacheDir, 0o755); err != nil {
		s.CacheDir = s.path("cache")
		if err := os.MkdirAll(s.CacheDir, 0o755); err != nil {
			return nil, err
		}
	}
	if owner == nil {
		return nil, nil
	}
	for _, dir := range []string{s.dir(), s.CacheDir} {
		if err := os.Lchown(dir, owner.uid, owner.gid); err != nil {
			return nil, err
		}
	}
	return owner, nil
}

// admit makes sure that the user can enter a state directory. A private directory that holds nothing but services is
// handed over, as is one that the user is to remove in the end; the directories above are somebody else's.
func (c credential) admit(stateDir string, handOver bool) error {
	info, err := os.Stat(stateDir)
	if err != nil {
		return err
	}
	if !c.owns(info) {
		return fmt.Errorf("%s belongs to another user, who could redirect what root writes there: choose another state directory", stateDir)
	}
	for dir := filepath.Dir(stateDir); ; dir = filepath.Dir(dir) {
		if open, err := c.mayEnter(dir); err != nil {
			return err
		} else if !open {
			return fmt.Errorf("PostgreSQL can not run as root and user %d can not enter %s: choose a state directory outside", c.uid, dir)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	open, err := c.mayEnter(stateDir)
	if err != nil || open && !handOver {
		return err
	}
	entries, err := os.ReadDir(stateDir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch kind(entry.Name()) {
		case kindPostgres, kindEmbeddedKafka, kindRealKafka:
		default:
			return fmt.Errorf("PostgreSQL can not run as root and %s, which has other content, can not be given to user %d: choose another state directory", stateDir, c.uid)
		}
	}
	return os.Lchown(stateDir, c.uid, c.gid)
}

// pickPort returns the port a service used before when it is still free, so that its address survives a restart, and
// any free one otherwise.
func pickPort(file string) (int, error) {
	if content, err := os.ReadFile(file); err == nil {
		if port, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil {
			if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
				return port, listener.Close()
			}
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

// keepPort writes the port down for pickPort.
func keepPort(file string, port int) error {
	return os.WriteFile(file, []byte(strconv.Itoa(port)+"\n"), 0o644)
}

// quoteTail is the end of a log file, ready to be appended to an error, and empty when there is none.
func quoteTail(file string) string {
	const lines = 15
	content, err := os.ReadFile(file)
	if err != nil || len(content) == 0 {
		return ""
	}
	tail := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	tail = tail[max(0, len(tail)-lines):]
	return fmt.Sprintf("\nlast lines of %s:\n%s", file, strings.Join(tail, "\n"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
