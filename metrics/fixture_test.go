package metrics_test

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/metrics"
	"github.com/millrace-go/millrace/outbox"
)

var (
	errAway     = errors.New("the broker is away")
	errTooLarge = event.Permanent(event.Classify(errors.New("too large"), "too_large"))
	errNoTopic  = errors.Join(event.ErrTopicUnavailable, errors.New("no such topic"))
)

// broker takes what it is sent, unless it refuses it.
type broker struct {
	mu     sync.Mutex
	got    []string
	refuse func(topic, id string) error
}

func (b *broker) Publish(topic string, messages ...*message.Message) error {
	b.mu.Lock()
	refuse := b.refuse
	b.mu.Unlock()
	for _, msg := range messages {
		if refuse != nil {
			if err := refuse(topic, msg.Metadata[event.IDKey]); err != nil {
				return err
			}
		}
		b.mu.Lock()
		b.got = append(b.got, msg.Metadata[event.IDKey])
		b.mu.Unlock()
	}
	return nil
}

func (b *broker) Close() error { return nil }

// set changes what is refused.
func (b *broker) set(refuse func(topic, id string) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = refuse
}

// rig is a database, a broker, and what is shown of both.
type rig struct {
	t   *testing.T
	db  *sql.DB
	dsn string
	broker
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t}
	r.db, r.dsn = testkit.MigratedDatabase(t)
	return r
}

// relay runs a relay until the test ends, and shows it.
func (r *rig) relay(config outbox.SubscriberConfig, logger watermill.LoggerAdapter) *shown {
	r.t.Helper()
	config.PollInterval, config.MinBackoff, config.MaxBackoff = 20*time.Millisecond, 10*time.Millisecond, 50*time.Millisecond
	config.MinHold, config.MaxHold = 10*time.Millisecond, 20*time.Millisecond
	f, err := forwarder.NewForwarder(r.db, r, forwarder.Config{Outbox: config}, logger)
	require.NoError(r.t, err)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(context.Background()) }()
	<-f.Running()
	r.t.Cleanup(func() {
		require.NoError(r.t, f.Close())
		require.NoError(r.t, <-ended)
	})
	return r.show(f.Stats)
}

// show shows a relay and the database.
func (r *rig) show(stats func() outbox.Stats) *shown {
	r.t.Helper()
	collector, err := metrics.NewOutboxCollector(r.db, metrics.OutboxConfig{Timeout: 10 * time.Second})
	require.NoError(r.t, err)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector, metrics.NewRelayCollector(stats))
	return &shown{r.t, registry}
}

func (r *rig) commit(topic string, messages ...*message.Message) {
	r.t.Helper()
	require.NoError(r.t, outbox.InTx(r.t.Context(), r.db, func(_ context.Context, tx *sql.Tx) error {
		publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
		if err != nil {
			return err
		}
		return publisher.Publish(topic, messages...)
	}))
}

func (r *rig) execute(statement string, args ...any) {
	r.t.Helper()
	_, err := r.db.ExecContext(r.t.Context(), statement, args...)
	require.NoError(r.t, err)
}

func (r *rig) operator() *outbox.Operator {
	r.t.Helper()
	o, err := outbox.NewOperator(r.db, outbox.OperatorConfig{Actor: "ann"})
	require.NoError(r.t, err)
	return o
}

// events have ids and no key.
func events(ids ...string) (messages []*message.Message) {
	for _, id := range ids {
		messages = append(messages, event.New("x", []byte("{}"), event.WithID(id)))
	}
	return messages
}

// keyed are events of one aggregate.
func keyed(ids ...string) (messages []*message.Message) {
	for n, id := range ids {
		messages = append(messages, event.New("x", []byte("{}"), event.WithID(id), event.Aggregate("order", "1", int64(n+1))))
	}
	return messages
}

// shown is what Prometheus would see.
type shown struct {
	t        *testing.T
	registry *prometheus.Registry
}

// values are the values by name and labels, such as parked{state="blocked"}, all without "millrace_".
func (s *shown) values() map[string]float64 {
	families, err := s.registry.Gather()
	require.NoError(s.t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := strings.TrimPrefix(f.GetName(), "millrace_")
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.GetHistogram() != nil:
				values[name+"_count"], values[name+"_sum"] = float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum()
			case m.GetCounter() != nil:
				values[name] = m.GetCounter().GetValue()
			default:
				values[name] = m.GetGauge().GetValue()
			}
		}
	}
	return values
}

// become waits until these values are shown.
func (s *shown) become(want map[string]float64) {
	s.t.Helper()
	s.until(func(values map[string]float64) bool {
		for name, value := range want {
			if got, ok := values[name]; !ok || got != value {
				return false
			}
		}
		return true
	}, want)
}

// rise waits until these are above 0.
func (s *shown) rise(names ...string) {
	s.t.Helper()
	s.until(func(values map[string]float64) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return values[name] <= 0 })
	}, names)
}

func (s *shown) until(condition func(map[string]float64) bool, what any) {
	s.t.Helper()
	var last map[string]float64
	ok := false
	for deadline := time.Now().Add(20 * time.Second); !ok && time.Now().Before(deadline); {
		last = s.values()
		ok = condition(last)
	}
	if !ok {
		for _, name := range slices.Sorted(maps.Keys(last)) {
			s.t.Log(name, last[name])
		}
		require.Fail(s.t, "never so", "%v", what)
	}
}
