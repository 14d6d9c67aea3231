package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lib/pq" // also the driver "postgres"
	"github.com/twmb/franz-go/pkg/kgo"
)

// eventType is the type of every event.
const eventType = "order.changed"

// contender is a relay to compare.
type contender interface {
	name() string
	// settings says in words how it is set up.
	settings() string
	// events is how many of those asked for it takes.
	events(o options) int
	// fill makes the contender's outbox in the empty database of the turn and fills it.
	fill(ctx context.Context, t *turn) error
	// command is the relay.
	command(t *turn) (*exec.Cmd, error)
	// clean removes what is not in the database of the turn.
	clean(ctx context.Context, t *turn) error
}

// turn is one run of one contender, in a database, on a topic and in a directory of its own.
type turn struct {
	id       string
	events   int
	database *url.URL
	db       *sql.DB
	admin    *kgo.Client
	brokers  []string
	topic    string
	dir      string
}

// take has a contender take its turn. Whatever is made for it is removed.
func (s *stage) take(ctx context.Context, c contender, run int) (f figures, err error) {
	t := &turn{
		id: fmt.Sprintf("%s_%d", c.name(), run), events: c.events(s.options), admin: s.client, brokers: s.brokers,
		topic: fmt.Sprintf("%s.%d", c.name(), run),
	}
	t.dir = filepath.Join(s.dir, t.id)
	if err := os.Mkdir(t.dir, 0o700); err != nil {
		return figures{}, err
	}
	defer os.RemoveAll(t.dir)
	if err := createTopics(ctx, s.client, t.topic); err != nil {
		return figures{}, err
	}
	address, err := url.Parse(s.database)
	if err != nil {
		return figures{}, err
	}
	address.Path = "/" + t.id
	t.database = address
	if _, err := s.db.ExecContext(ctx, "create database "+pq.QuoteIdentifier(t.id)); err != nil {
		return figures{}, err
	}
	if t.db, err = sql.Open("postgres", address.String()); err != nil {
		return figures{}, err
	}
	defer func() {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, c.clean(cleaning, t), t.db.Close(), deleteTopics(cleaning, s.client, t.topic))
		_, dropErr := s.db.ExecContext(cleaning, "drop database "+pq.QuoteIdentifier(t.id)+" with (force)")
		err = errors.Join(err, dropErr)
	}()
	if err := c.fill(ctx, t); err != nil {
		return figures{}, err
	}
	// Fresh statistics and an even start, as in a database that has been at work for a while.
	for _, statement := range []string{"analyze", "checkpoint"} {
		if _, err := t.db.ExecContext(ctx, statement); err != nil {
			return figures{}, err
		}
	}
	return t.relay(ctx, c)
}

// relay runs the relay until everything is on the topic, and counts.
func (t *turn) relay(ctx context.Context, c contender) (f figures, err error) {
	command, err := c.command(t)
	if err != nil {
		return figures{}, err
	}
	p, err := start(command, filepath.Join(t.dir, "relay.log"))
	if err != nil {
		return figures{}, err
	}
	err = t.awaitRecords(ctx, p)
	rss, rssErr := p.rss()
	if err = errors.Join(err, p.stop()); err != nil {
		return figures{}, err
	}
	if rssErr == nil { // it is only told on Linux
		f.RSSMiB = float64(rss) / (1 << 20)
	}
	f.CPUPerEvent = float64(p.cpu().Microseconds()) / float64(t.events)
	counted := newTally(t.events)
	if err := scan(ctx, t.brokers, t.topic, counted.add); err != nil {
		return figures{}, err
	}
	f.Seconds, f.EventsPerSecond = counted.rate()
	f.Lost, f.Duplicated, f.Reordered = counted.lost(), counted.duplicated, counted.reordered
	return f, nil
}

// awaitRecords waits until there are as many records as events and for a second none more, for a relay that repeats itself
// and to have it write down what it did; or until nothing moves for long: then what is missing is lost.
func (t *turn) awaitRecords(ctx context.Context, p *process) error {
	var last int64 = -1
	moved := time.Now()
	return p.await(ctx, func(ctx context.Context) (bool, error) {
		_, records, err := ends(ctx, t.admin, t.topic)
		if err != nil {
			return false, err
		}
		if records != last {
			last, moved = records, time.Now()
		}
		quiet := time.Since(moved)
		return records >= int64(t.events) && quiet > time.Second || quiet > patience, nil
	})
}
