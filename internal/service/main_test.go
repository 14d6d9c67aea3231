package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-go/millrace/internal/service"
)

// parentVariable makes this executable the parent of a test: it starts both services in the directory named and waits
// to be killed.
const parentVariable = "MILLRACE_TEST_PARENT_STATE"

// startTimeout covers a first start, which may download the service.
const startTimeout = 5 * time.Minute

// started is what such a parent prints.
type started struct {
	PIDs []int
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		if err := beParent(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

func beParent(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	postgres, err := service.StartPostgres(ctx, service.PostgresConfig{StateDir: dir})
	if err != nil {
		return err
	}
	kafka, err := service.StartKafka(ctx, service.KafkaConfig{StateDir: dir, Real: realKafka()})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(started{PIDs: []int{postgres.PID(), kafka.PID()}}); err != nil {
		return err
	}
	select {}
}

// realKafka says which broker the tests start.
func realKafka() bool { return os.Getenv("MILLRACE_TEST_KAFKA") == "real" }
