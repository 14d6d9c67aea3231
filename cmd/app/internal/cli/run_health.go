package cli

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lib/pq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
)

const (
	// probeTimeout bounds what one request for readiness or metrics asks the servers.
	probeTimeout = 2 * time.Second

	// readinessAge is how old an answer to /readyz may be, so that any number of probes ask the servers once.
	readinessAge = 250 * time.Millisecond
)

//go:embed run_troubles.sql
var troublesSQL string

// health answers for a relay.
type health struct {
	db       *sql.DB
	troubles string
	client   *kgo.Client // of its own: the relay's is busy exactly when it matters
	running  <-chan struct{}
	stats    func() outbox.Stats
	ending   atomic.Bool
	registry *prometheus.Registry

	mu    sync.Mutex
	last  readiness
	asked time.Time
}

// readiness is how ready the relay is, part by part.
type readiness struct {
	parts []part
}

// part is a thing the relay needs, or has trouble with.
type part struct {
	name   string
	state  string // "ok" or what is wrong
	down   bool   // nothing can be relayed
	uneasy bool   // something can
}

func newHealth(db *sql.DB, brokers kafka.Connection, schema string, relay *forwarder.Forwarder) (*health, error) {
	client, err := broker.NewClient(brokers)
	if err != nil {
		return nil, err
	}
	registry, err := newRegistry(db, schema, relay, newBrokerMetrics(client.Ping))
	if err != nil {
		client.Close()
		return nil, err
	}
	return &health{
		db: db, troubles: strings.ReplaceAll(troublesSQL, "{{schema}}", pq.QuoteIdentifier(schema)),
		client: client, running: relay.Running(), stats: relay.Stats, registry: registry,
	}, nil
}

func (h *health) close() { h.client.Close() }

// stopping makes the process not ready, while it still answers.
func (h *health) stopping() { h.ending.Store(true) }

func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if h.stats().Alive {
			answer(w, http.StatusOK, "ok\n")
			return
		}
		answer(w, http.StatusServiceUnavailable, "the relay's loop does not move\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ready, text := h.ready(r.Context()).describe()
		status := http.StatusOK
		if !ready {
			status = http.StatusServiceUnavailable
		}
		answer(w, status, text)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	}))
	return mux
}

func (h *health) ready(ctx context.Context) readiness {
	select {
	case <-h.running:
	default:
		return readiness{[]part{{name: "relay", state: "starting", down: true}}}
	}
	if h.ending.Load() {
		return readiness{[]part{{name: "relay", state: "stopping", down: true}}}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.asked) > readinessAge {
		// Others will be told the same, also if this client hangs up.
		h.last = h.ask(context.WithoutCancel(ctx))
		h.asked = time.Now()
	}
	return h.last
}

// ask finds out how ready the relay is.
func (h *health) ask(ctx context.Context) (r readiness) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	broker := make(chan error, 1)
	go func() { broker <- h.client.Ping(ctx) }()
	databaseErr := h.db.PingContext(ctx)
	var held int
	var quarantined bool
	unknown := databaseErr != nil || h.db.QueryRowContext(ctx, h.troubles).Scan(&held, &quarantined) != nil
	brokerErr := <-broker
	stats := h.stats()

	r.add("postgresql", "PostgreSQL is unreachable", databaseErr != nil, true)
	r.add("kafka", "Kafka is unreachable", brokerErr != nil, true)
	r.add("relay", "the relay has no lease", !stats.Registered, true)
	if stats.Listens {
		r.add("wake-up", "the connection for wake-ups is lost, polling", !stats.Connected, false)
	}
	if !unknown {
		r.add("topics", fmt.Sprintf("%d held", held), held > 0, false)
		r.add("events", "some are quarantined", quarantined, false)
	}
	return r
}

// add adds a part that is well, or in trouble: with it nothing can be relayed, or less than everything.
func (r *readiness) add(name, trouble string, troubled, down bool) {
	p := part{name: name, state: "ok"}
	if troubled {
		p.state, p.down, p.uneasy = trouble, down, !down
	}
	r.parts = append(r.parts, p)
}

// describe says whether the relay is ready, and how each part is, a line each.
func (r readiness) describe() (ready bool, text string) {
	var down, uneasy []string
	var lines strings.Builder
	for _, p := range r.parts {
		fmt.Fprintf(&lines, "%s: %s\n", p.name, p.state)
		switch {
		case p.down:
			down = append(down, p.state)
		case p.uneasy:
			uneasy = append(uneasy, p.name+": "+p.state)
		}
	}
	switch {
	case len(down) > 0:
		return false, "not ready: " + strings.Join(down, ", ") + "\n" + lines.String()
	case len(uneasy) > 0:
		return true, "degraded: " + strings.Join(uneasy, ", ") + "\n" + lines.String()
	}
	return true, "ok\n" + lines.String()
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // who hung up needs no answer
}
