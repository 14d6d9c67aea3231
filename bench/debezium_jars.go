package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// debeziumVersion is the release that debezium_pom.xml asks for.
const debeziumVersion = "3.6.1.Final"

//go:embed debezium_pom.xml
var debeziumPOM []byte

// debeziumJars returns the directory of the jars, which are fetched through Maven the first time. They appear under their
// final name in one step: nobody ever sees half a set.
func debeziumJars(ctx context.Context, say func(format string, args ...any)) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "millrace")
	jars := filepath.Join(cache, "debezium-"+debeziumVersion)
	if _, err := os.Stat(jars); err == nil {
		return jars, nil
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", err
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("fetching Debezium needs Maven on PATH, or leave it out with --contenders: %w", err)
	}
	say("Fetching Debezium %s through Maven, once", debeziumVersion)
	work, err := os.MkdirTemp(cache, "debezium-fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	pom := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(pom, debeziumPOM, 0o600); err != nil {
		return "", err
	}
	fetched := filepath.Join(work, "lib")
	fetch := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pom, "dependency:copy-dependencies", //nolint:gosec // from PATH
		"-DincludeScope=runtime", "-DoutputDirectory="+fetched)
	fetch.WaitDelay = time.Second
	if output, err := fetch.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch Debezium through Maven: %w\n%s", err, bytes.TrimSpace(output))
	}
	if err := os.Rename(fetched, jars); err != nil {
		if _, there := os.Stat(jars); there != nil {
			return "", errors.Join(errors.New("keep the fetched jars"), err)
		}
	}
	return jars, nil
}
