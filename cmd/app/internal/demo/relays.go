package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"

	"github.com/millrace-go/millrace/cmd/app/internal/relayprocess"
)

// lease is short, so that taking over from a killed relay does not take long.
const lease = 2 * time.Second

// startTimeout bounds how long relays take to share the work out among themselves.
const startTimeout = 30 * time.Second

// relays are the relay processes.
type relays struct {
	config  Config
	db      *sql.DB
	running []*relayprocess.Process
	started int
}

func (r *relays) add() error {
	r.started++
	p, err := relayprocess.Start(relayprocess.Config{
		DatabaseURL: r.config.DatabaseURL, Schema: r.config.Schema, Log: r.config.RelayLog,
		Environment: append([]string{
			relayprocess.Brokers(r.config.Brokers.Brokers),
			"MILLRACE_RELAY_LEASE=" + lease.String(), fmt.Sprintf("MILLRACE_RELAY_NAME=demo-%d", r.started),
		}, r.config.Environment...),
	})
	if err != nil {
		return err
	}
	r.running = append(r.running, p)
	return nil
}

// ready waits until every relay owns a part of the outbox.
func (r *relays) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	schema := pq.QuoteIdentifier(r.config.Schema)
	for _, p := range r.running {
		err := p.Wait(ctx, func(ctx context.Context) (bool, error) {
			var owners int
			err := r.db.QueryRowContext(ctx, "select count(distinct relay_id) from "+schema+".outbox_shard").Scan(&owners)
			return owners >= len(r.running), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// kill ends the relay that has been running longest, and starts another.
func (r *relays) kill() (pid int, err error) {
	victim := r.running[0]
	r.running = r.running[1:]
	return victim.PID(), errors.Join(victim.Kill(), r.add())
}

// stop stops them all. It may be called again.
func (r *relays) stop() error {
	var errs []error
	for _, p := range r.running {
		errs = append(errs, p.Stop())
	}
	r.running = nil
	return errors.Join(errs...)
}
