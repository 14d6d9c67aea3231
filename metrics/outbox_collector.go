package metrics

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/lib/pq"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	//go:embed waiting.sql
	waitingSQL string
	//go:embed parked.sql
	parkedSQL string
	//go:embed fleet.sql
	fleetSQL string
	//go:embed held.sql
	heldSQL string
)

// OutboxCollector exports how the outbox is, asked of the database on each scrape. It says the same in every process of one
// database: take the maximum. While the database is away, or slow, what it did not answer is missing.
type OutboxCollector struct {
	db                          *sql.DB
	config                      OutboxConfig
	waiting, parked, fleet, top string // statements

	up, pending, oldest, parkedEvents, oldestParked *prometheus.Desc
	live, shards, unowned, takeovers                *prometheus.Desc
	paused, held, heldFor                           *prometheus.Desc
}

// parkedStates are the states of parked events.
var parkedStates = []string{"retrying", "blocked", "quarantined", "scheduled", "discarded"}

// NewOutboxCollector makes a collector. The database is not asked before the first scrape.
func NewOutboxCollector(db *sql.DB, config OutboxConfig) (*OutboxCollector, error) {
	config.setDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("metrics: invalid OutboxConfig: %w", err)
	}
	if db == nil {
		return nil, errors.New("metrics: db is nil")
	}
	statement := func(raw string) string {
		return strings.ReplaceAll(raw, "{{schema}}", pq.QuoteIdentifier(config.Schema))
	}
	name := func(name, text string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_"+name, text, labels, nil)
	}
	return &OutboxCollector{
		db: db, config: config,
		waiting: statement(waitingSQL), parked: statement(parkedSQL), fleet: statement(fleetSQL), top: statement(heldSQL),
		up:           name("database_up", "1 if PostgreSQL answered this scrape."),
		pending:      name("outbox_pending", "Committed events that are neither sent nor parked, of all relays, among the 10000 of each shard and held topic that follow what is stored as settled, and 100000 in all: there may be more."),
		oldest:       name("outbox_oldest_pending_seconds", "Age of the oldest committed event that is neither sent nor parked, among the 10000 of each shard and held topic that follow what is stored as settled."),
		parkedEvents: name("outbox_parked", "Parked events, by state.", "state"),
		oldestParked: name("outbox_oldest_parked_seconds", "For how long the oldest event has been parked, by state; 0 without any.", "state"),
		live:         name("outbox_live_relays", "Relays with a lease."),
		shards:       name("outbox_shards", "Shards there are."),
		unowned:      name("outbox_unowned_shards", "Shards without a live owner: nobody relays their events."),
		takeovers:    name("outbox_takeovers_without_progress", "Takeovers in a row after which nothing was sent, of the shard with the most."),
		paused:       name("outbox_paused", "What operators have paused, by kind.", "kind"),
		held:         name("outbox_held_topics", "Topics nothing is sent to: paused, unavailable or stalled."),
		heldFor:      name("outbox_topic_held_seconds", "For how long a topic has been held, for those held longest.", "topic", "reason"),
	}, nil
}

// Describe sends what Collect may.
func (c *OutboxCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.up, c.pending, c.oldest, c.parkedEvents, c.oldestParked, c.live, c.shards, c.unowned, c.takeovers, c.paused, c.held, c.heldFor,
	} {
		out <- d
	}
}

// Collect asks the database and sends what it answered.
func (c *OutboxCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.config.Timeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	up := c.db.PingContext(ctx) == nil
	gauge(c.up, truth(up))
	if !up {
		return
	}
	var pending, oldest, live, shards, unowned, takeovers, topics, aggregates float64
	if c.db.QueryRowContext(ctx, c.fleet).Scan(&live, &shards, &unowned, &takeovers, &topics, &aggregates) == nil {
		gauge(c.live, live)
		gauge(c.shards, shards)
		gauge(c.unowned, unowned)
		gauge(c.takeovers, takeovers)
		gauge(c.paused, topics, "topic")
		gauge(c.paused, aggregates, "aggregate")
	}
	c.collectHeld(ctx, gauge)
	c.collectParked(ctx, gauge)
	if c.db.QueryRowContext(ctx, c.waiting).Scan(&pending, &oldest) == nil {
		gauge(c.pending, pending)
		gauge(c.oldest, oldest)
	}
}

type gauge func(d *prometheus.Desc, value float64, labels ...string)

func (c *OutboxCollector) collectParked(ctx context.Context, gauge gauge) {
	events, oldest := map[string]float64{}, map[string]float64{}
	err := c.each(ctx, c.parked, nil, func(rows *sql.Rows) error {
		var state string
		var n, seconds float64
		err := rows.Scan(&state, &n, &seconds)
		events[state], oldest[state] = n, seconds
		return err
	})
	if err != nil {
		return
	}
	for _, state := range parkedStates {
		gauge(c.parkedEvents, events[state], state)
		gauge(c.oldestParked, oldest[state], state)
	}
}

func (c *OutboxCollector) collectHeld(ctx context.Context, gauge gauge) {
	type topic struct {
		name, reason string
		seconds, all float64
	}
	var held []topic
	err := c.each(ctx, c.top, []any{c.config.MaxTopics}, func(rows *sql.Rows) error {
		var t topic
		err := rows.Scan(&t.name, &t.reason, &t.seconds, &t.all)
		held = append(held, t)
		return err
	})
	if err != nil {
		return
	}
	all := 0.0
	for _, t := range held {
		all = t.all
		gauge(c.heldFor, t.seconds, t.name, t.reason)
	}
	gauge(c.held, all)
}

// each calls f for every row.
func (c *OutboxCollector) each(ctx context.Context, query string, args []any, f func(*sql.Rows) error) error {
	rows, err := c.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
