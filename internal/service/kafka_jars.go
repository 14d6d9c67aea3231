package service

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

// kafkaVersion is the release of Apache Kafka that kafka_pom.xml asks for.
const kafkaVersion = "4.4.0"

//go:embed kafka_pom.xml
var kafkaPOM []byte

// kafkaJars returns the directory of Kafka's jars, which are fetched through Maven the first time. They appear under
// their final name in one step, so that processes that fetch at the same time never see half a set.
func kafkaJars(ctx context.Context, s spec) (string, error) {
	jars := filepath.Join(s.CacheDir, "kafka-"+kafkaVersion)
	if exists(jars) {
		return jars, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("fetching Kafka %s needs Maven on PATH (on Debian the package maven), or use the embedded Kafka: %w", kafkaVersion, err)
	}
	work, err := os.MkdirTemp(s.CacheDir, "kafka-fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	pom := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(pom, kafkaPOM, 0o644); err != nil {
		return "", err
	}
	fetched := filepath.Join(work, "lib")
	fetch := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pom, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+fetched)
	fetch.WaitDelay = time.Second
	if output, err := fetch.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch Kafka %s through Maven: %w\n%s", kafkaVersion, err, bytes.TrimSpace(output))
	}
	if err := os.Rename(fetched, jars); err != nil && !exists(jars) {
		return "", errors.Join(errors.New("keep the fetched jars"), err)
	}
	return jars, nil
}
