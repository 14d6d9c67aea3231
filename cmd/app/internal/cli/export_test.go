package cli

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/cmd/app/internal/demo"
)

// MainWithoutOneRecord is Main with a demo in whose evidence one record of the topic is missing, of an event that is there
// once only.
func MainWithoutOneRecord(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return main(args, &app{stdin: stdin, stdout: stdout, stderr: stderr, tamper: func(e *demo.Evidence) {
		times := map[string]int{}
		for _, r := range e.Orders {
			times[r.EventID]++
		}
		i := slices.IndexFunc(e.Orders, func(r demo.Record) bool { return times[r.EventID] == 1 })
		e.Orders = slices.Delete(e.Orders, i, i+1)
	}})
}

// Besides is what an interrupt does not explain.
var Besides = besides

// NewBrokerMetrics shows whether Kafka answers.
func NewBrokerMetrics(ping func(context.Context) error) prometheus.Collector {
	return newBrokerMetrics(ping)
}

// Serve serves on address until the test calls what it returns.
func Serve(ctx context.Context, address string, handler http.Handler) (at string, end func() error, err error) {
	s, err := serve(ctx, address, handler)
	if err != nil {
		return "", nil, err
	}
	return s.address(), s.close, nil
}

// MaxConnections is how many clients are served at once.
const MaxConnections = maxConnections
