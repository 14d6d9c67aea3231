package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/service"
)

// startTimeout covers a first start, which may download the service.
const startTimeout = 5 * time.Minute

// serverDSN is the address of the process's PostgreSQL server. Nobody stops it: its supervisor sees this process end,
// stops it and removes its data.
var serverDSN = sync.OnceValues(func() (string, error) {
	if existing := os.Getenv("MILLRACE_TEST_DATABASE_URL"); existing != "" {
		return existing, nil
	}
	dir, err := os.MkdirTemp("", "millrace-test-")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := service.StartPostgres(ctx, service.PostgresConfig{
		StateDir:  dir,
		Version:   os.Getenv("MILLRACE_TEST_POSTGRES_VERSION"),
		Temporary: true,
	})
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return server.DSN(), nil
})

// brokers are the addresses of the process's broker, which ends like the PostgreSQL server.
var brokers = sync.OnceValues(func() ([]string, error) {
	if existing := os.Getenv("MILLRACE_TEST_KAFKA_BROKERS"); existing != "" {
		return strings.Split(existing, ","), nil
	}
	real, err := realKafka()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "millrace-test-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	broker, err := service.StartKafka(ctx, service.KafkaConfig{StateDir: dir, Real: real, Temporary: true})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return broker.Brokers(), nil
})

// realKafka says which kind of broker the environment asks for.
func realKafka() (bool, error) {
	switch kind := os.Getenv("MILLRACE_TEST_KAFKA"); kind {
	case "", "embedded":
		return false, nil
	case "real":
		return true, nil
	default:
		return false, fmt.Errorf("MILLRACE_TEST_KAFKA is %q: neither embedded nor real", kind)
	}
}
