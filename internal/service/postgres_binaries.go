package service

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// downloads maps a major version to the release that is fetched for it. 14 is the oldest one the schema runs on.
var downloads = map[string]string{
	"14": string(embedded.V14),
	"15": string(embedded.V15),
	"16": string(embedded.V16),
	"17": string(embedded.V17),
	"18": string(embedded.V18),
}

const (
	oldestVersion  = 14
	newestDownload = "18"
)

// downloadTimeout bounds the wait for another process that is fetching the same binaries.
const downloadTimeout = 5 * time.Minute

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) ((\d+)[.\d]*)`)

// binaries is one PostgreSQL installation.
type binaries struct {
	dir     string // holds bin/
	version string
	source  string
	cache   string // holds everything of a download and is empty for what is installed
}

func (b binaries) tool(name string) string { return filepath.Join(b.dir, "bin", name) }

// findBinaries chooses the installation for a major version, or the preferred one when the version is empty.
func findBinaries(ctx context.Context, s spec, version string) (binaries, error) {
	for _, dir := range candidates() {
		found, major, err := inspect(ctx, dir)
		if err != nil {
			continue // not a complete installation: the next one or the download serves as well
		}
		if version == "" && major >= oldestVersion || version == strconv.Itoa(major) {
			return found, nil
		}
	}
	if version == "" {
		version = newestDownload
	}
	release, known := downloads[version]
	if !known {
		return binaries{}, fmt.Errorf("PostgreSQL %s is neither installed nor known as a download", version)
	}
	cache := filepath.Join(s.CacheDir, fmt.Sprintf("postgres-%s-%s-%s", release, runtime.GOOS, runtime.GOARCH))
	dir := filepath.Join(cache, "binaries")
	return binaries{
		dir:     dir,
		version: release,
		source:  fmt.Sprintf("PostgreSQL %s, downloaded to %s", release, dir),
		cache:   cache,
	}, nil
}

// candidates are the installations of this machine: the one on PATH, then Debian's, newest first.
func candidates() []string {
	var dirs []string
	if path, err := exec.LookPath("pg_ctl"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(filepath.Dir(path)))
		}
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well-formed
	slices.SortFunc(debian, func(a, b string) int { return majorOf(b) - majorOf(a) })
	for _, bin := range debian {
		dirs = append(dirs, filepath.Dir(bin))
	}
	return dirs
}

func majorOf(debianBin string) int {
	major, err := strconv.Atoi(filepath.Base(filepath.Dir(debianBin)))
	if err != nil {
		return 0
	}
	return major
}

// inspect asks an installation for its version and makes sure that it can create data.
func inspect(ctx context.Context, dir string) (binaries, int, error) {
	found := binaries{dir: dir}
	if _, err := os.Stat(found.tool("initdb")); err != nil {
		return binaries{}, 0, err
	}
	output, err := exec.CommandContext(ctx, found.tool("postgres"), "--version").Output()
	if err != nil {
		return binaries{}, 0, err
	}
	match := versionPattern.FindSubmatch(output)
	if match == nil {
		return binaries{}, 0, fmt.Errorf("%s: unknown version %q", dir, output)
	}
	found.version = string(match[1])
	found.source = fmt.Sprintf("PostgreSQL %s from %s", found.version, filepath.Join(dir, "bin"))
	major, err := strconv.Atoi(string(match[2]))
	return found, major, err
}

// reserve lets one process at a time fetch the binaries, and removes what an interrupted fetch has left. The library extracts while it starts the server, so the reservation is held until then.
func (b binaries) reserve(ctx context.Context) (release func(), err error) {
	if b.cache == "" || exists(b.completeMarker()) {
		return func() {}, nil
	}
	unlock, err := lockFile(ctx, b.cache+".lock", downloadTimeout)
	if err != nil {
		return nil, fmt.Errorf("fetch PostgreSQL %s: %w", b.version, err)
	}
	if exists(b.completeMarker()) {
		return unlock, nil
	}
	if err := os.RemoveAll(b.cache); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// markComplete notes that downloaded binaries have run a server.
func (b binaries) markComplete() error {
	if b.cache == "" {
		return nil
	}
	return os.WriteFile(b.completeMarker(), nil, 0o644)
}

func (b binaries) completeMarker() string { return filepath.Join(b.cache, "complete") }
