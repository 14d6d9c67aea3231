package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// User and password of the started server. They are examples and protect nothing.
const (
	postgresUser     = "postgres"
	postgresPassword = "example-password"
)

// initialized is the file that marks data as complete. Data without it was left by an interrupted first start.
const initialized = "initialized"

// startPostgresServer starts the server of a state directory, creating its data first when there is none.
func startPostgresServer(ctx context.Context, s spec) (report, func() error, error) {
	version, err := dataVersion(s)
	if err != nil {
		return report{}, nil, err
	}
	binaries, err := findBinaries(ctx, s, version)
	if err != nil {
		return report{}, nil, err
	}
	if err := prepareRuntime(s); err != nil {
		return report{}, nil, err
	}
	crashed, err := clearCrash(s, binaries)
	if err != nil {
		return report{}, nil, err
	}
	unlock, err := binaries.reserve(ctx)
	if err != nil {
		return report{}, nil, err
	}
	defer unlock()

	// A port can be lost to another process between choosing and using it, and after a crash the data stays locked
	// until the last backend of the killed server has noticed.
	attempts := 3
	if crashed {
		attempts = 20
	}
	for attempt := 1; ; attempt++ {
		port, err := pickPort(s.path("port"))
		if err != nil {
			return report{}, nil, err
		}
		err = startOnce(ctx, s, binaries, port)
		if err == nil {
			return ready(s, binaries, port)
		}
		if attempt == attempts || ctx.Err() != nil {
			return report{}, nil, fmt.Errorf("%w%s", err, quoteTail(s.path("log/postgresql.log")))
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// startOnce runs the library's start, which takes no context. When ctx ends before it, a download is given up by
// ending this process, while a server that is coming up is waited for and stopped.
func startOnce(ctx context.Context, s spec, binaries binaries, port int) error {
	log, err := os.OpenFile(s.path("start.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	server := embedded.NewDatabase(embedded.DefaultConfig().
		Version(embedded.PostgresVersion(binaries.version)).
		BinariesPath(binaries.dir).
		CachePath(binaries.cache).
		RuntimePath(s.path("run")).
		DataPath(s.path("data")).
		Username(postgresUser).
		Password(postgresPassword).
		Locale("C").
		Encoding("UTF8").
		Port(uint32(port)).
		StartParameters(parameters(s)).
		Logger(log))

	started := make(chan error, 1)
	go func() { started <- server.Start() }()
	select {
	case err = <-started:
	case <-ctx.Done():
		err = ctx.Err()
		if exists(binaries.tool("pg_ctl")) {
			err = errors.Join(err, <-started)
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return errors.Join(err, stopPostgresServer(s, binaries))
	}
	return nil
}

func ready(s spec, binaries binaries, port int) (report, func() error, error) {
	err := errors.Join(
		keepPort(s.path("port"), port),
		os.WriteFile(s.path(initialized), nil, 0o644),
		binaries.markComplete(),
	)
	stop := func() error { return stopPostgresServer(s, binaries) }
	if err != nil {
		return report{}, nil, errors.Join(err, stop())
	}
	dsn := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(postgresUser, postgresPassword),
		Host:     "127.0.0.1:" + strconv.Itoa(port),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	return report{Address: dsn.String(), Source: binaries.source, PID: serverPID(s)}, stop, nil
}

// parameters are the server's settings, those asked for before those of this package.
func parameters(s spec) map[string]string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"max_connections":         "200",
		"logging_collector":       "on",
		"log_directory":           "../log",
		"log_filename":            "postgresql.log",
		"log_rotation_age":        "0",
	}
	maps.Copy(settings, s.Settings)
	return settings
}

// dataVersion is the major version to run: that of the kept data, which no other one can open.
func dataVersion(s spec) (string, error) {
	if !exists(s.path(initialized)) {
		return s.Version, os.RemoveAll(s.path("data"))
	}
	content, err := os.ReadFile(s.path("data/PG_VERSION"))
	if err != nil {
		return "", err
	}
	kept := strings.TrimSpace(string(content))
	if s.Version != "" && s.Version != kept {
		return "", fmt.Errorf("%s holds data of PostgreSQL %s, not %s: choose another state directory", s.StateDir, kept, s.Version)
	}
	return kept, nil
}

// prepareRuntime gives the library an empty directory for its temporary files, which it would leave in /tmp.
func prepareRuntime(s spec) error {
	if err := os.RemoveAll(s.path("tmp")); err != nil {
		return err
	}
	return errors.Join(
		os.Mkdir(s.path("tmp"), 0o700),
		os.Setenv("TMPDIR", s.path("tmp")),
		os.Setenv("PGCTLTIMEOUT", "60"),
	)
}

// clearCrash ends what a killed supervisor left running on the data, and says whether anything was left at all.
func clearCrash(s spec, binaries binaries) (bool, error) {
	pid := serverPID(s)
	if pid == 0 {
		return false, nil
	}
	dataDir, err := filepath.EvalSymlinks(s.path("data"))
	if err != nil {
		return false, err
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && cwd != dataDir {
		// The system reused the id for another process, which PostgreSQL would take for a running server.
		return true, os.Remove(s.path("data/postmaster.pid"))
	}
	return true, stopPostgresServer(s, binaries)
}

// stopPostgresServer shuts the server down, the hard way when it has not ended in time.
func stopPostgresServer(s spec, binaries binaries) error {
	var errs []error
	for _, mode := range []string{"fast", "immediate"} {
		pid := serverPID(s)
		if pid == 0 || !Alive(pid) {
			return nil
		}
		output, err := exec.Command(binaries.tool("pg_ctl"), "stop", "-w", "-t", "20", "-m", mode, "-D", s.path("data")).CombinedOutput()
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("pg_ctl stop -m %s: %w: %s", mode, err, output))
	}
	if !Alive(serverPID(s)) {
		return nil
	}
	return errors.Join(errs...)
}

// serverPID is the process id in the server's own pid file, or 0 when there is none.
func serverPID(s spec) int {
	content, err := os.ReadFile(s.path("data/postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return 0
	}
	return pid
}
