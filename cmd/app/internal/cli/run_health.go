package cli

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/kafka"
)

// probeTimeout bounds what one request for readiness or metrics asks the servers.
const probeTimeout = 2 * time.Second

// health answers for a relay.
type health struct {
	db       *sql.DB
	client   *kgo.Client // of its own: the relay's is busy exactly when it matters
	running  <-chan struct{}
	ending   atomic.Bool
	registry *prometheus.Registry
}

func newHealth(db *sql.DB, brokers kafka.Connection, schema string, relay *forwarder.Forwarder) (*health, error) {
	client, err := broker.NewClient(brokers)
	if err != nil {
		return nil, err
	}
	h := &health{db: db, client: client, running: relay.Running(), registry: prometheus.NewRegistry()}
	h.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newRelayMetrics(db, schema, relay.Stats),
	)
	return h, nil
}

func (h *health) close() { h.client.Close() }

// stopping makes the process not ready, while it still answers.
func (h *health) stopping() { h.ending.Store(true) }

func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { answer(w, h.ready(r.Context())) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	}))
	return mux
}

func (h *health) ready(ctx context.Context) error {
	select {
	case <-h.running:
	default:
		return errors.New("starting")
	}
	if h.ending.Load() {
		return errors.New("stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	kafka := make(chan error, 1)
	go func() { kafka <- h.client.Ping(ctx) }()
	var errs []error
	if h.db.PingContext(ctx) != nil {
		errs = append(errs, errors.New("PostgreSQL is unreachable"))
	}
	if <-kafka != nil {
		errs = append(errs, errors.New("Kafka is unreachable"))
	}
	return errors.Join(errs...)
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	text := "ok"
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = err.Error()
	}
	_, _ = w.Write([]byte(text + "\n")) // who hung up needs no answer
}
