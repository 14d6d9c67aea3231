package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
)

//go:embed relay_register.sql
var registerSQL string

//go:embed relay_renew.sql
var renewSQL string

//go:embed relay_leave.sql
var leaveSQL string

//go:embed claim.sql
var claimSQL string

//go:embed claim_lookup.sql
var claimLookupSQL string

//go:embed claim_highest.sql
var highestSQL string

//go:embed claim_lanes.sql
var claimLanesSQL string

// claimed is a shard as a claim returned it, and what was found out about it right after.
type claimed struct {
	token
	frontier
	takenOver    bool
	takeovers    int   // without progress
	suspect      int64 // the position that was being sent alone; 0 = none
	suspectTries int

	highest int64 // position
	lanes   []laneRow
	keys    []keyRow
}

// register is the relay register and the claims in the database, as one relay sees them.
type register struct {
	db      *sql.DB
	schema  string
	relayID string
	lease   time.Duration
	anchor  string
}

// census is what a renewal reports.
type census struct {
	renewed bool
	free    int // shards without a live owner
	shards  int
	relays  []relayEntry
	mine    []token
	clock   time.Time // the database's
}

type relayEntry struct {
	ID    string `json:"id"`
	Live  bool   `json:"live"`
	Ahead bool   `json:"ahead"` // the lease ends later than a lease from now: some clock went backwards
	Lease int64  `json:"lease_ms"`
	Until string `json:"until"`
}

func (r *register) enter(ctx context.Context, name string) error {
	err := r.db.QueryRowContext(ctx, loadSQL(registerSQL, r.schema), r.relayID, name, r.lease.Milliseconds()).Scan(&r.anchor)
	if err != nil {
		return fmt.Errorf("register relay: %w", err)
	}
	return nil
}

func (r *register) renew(ctx context.Context, dead []string) (census, error) {
	var c census
	var relays, mine []byte
	var microseconds int64
	err := r.db.QueryRowContext(ctx, loadSQL(renewSQL, r.schema), r.relayID, r.lease.Milliseconds(), r.anchor, pq.Array(dead)).
		Scan(&c.renewed, &c.free, &c.shards, &relays, &mine, &microseconds)
	if err != nil {
		return census{}, fmt.Errorf("renew lease: %w", err)
	}
	c.clock = time.UnixMicro(microseconds)
	var own []struct {
		Shard        int16  `json:"shard"`
		ClaimID      string `json:"claim_id"`
		ClaimVersion int64  `json:"claim_version"`
	}
	if err := json.Unmarshal(relays, &c.relays); err != nil {
		return census{}, fmt.Errorf("renew lease: relays: %w", err)
	}
	if err := json.Unmarshal(mine, &own); err != nil {
		return census{}, fmt.Errorf("renew lease: shards: %w", err)
	}
	for _, o := range own {
		c.mine = append(c.mine, token{o.Shard, o.ClaimID, o.ClaimVersion})
	}
	return c, nil
}

// claim takes at most n free shards under a claim_id of its own.
func (r *register) claim(ctx context.Context, claimID string, n int, dead []string) ([]claimed, error) {
	got, err := r.query(ctx, loadSQL(claimSQL, r.schema), claimID, r.relayID, claimID, n, pq.Array(dead), r.anchor)
	if err != nil {
		return nil, fmt.Errorf("claim shards: %w", err)
	}
	return got, nil
}

// lookup resolves a claim whose answer was lost.
func (r *register) lookup(ctx context.Context, claimID string) ([]claimed, error) {
	got, err := r.query(ctx, loadSQL(claimLookupSQL, r.schema), claimID, r.relayID, claimID)
	if err != nil {
		return nil, fmt.Errorf("look up claim: %w", err)
	}
	return got, nil
}

func (r *register) query(ctx context.Context, query, claimID string, args ...any) ([]claimed, error) {
	rows, err := r.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var got []claimed
	for rows.Next() {
		c := claimed{token: token{claimID: claimID}}
		if err := rows.Scan(&c.shard, &c.claimVersion, &c.snapshot, &c.position, &c.takenOver, &c.takeovers, &c.suspect, &c.suspectTries); err != nil {
			return nil, err
		}
		got = append(got, c)
	}
	return got, rows.Err()
}

// inspect looks up, after the claim has committed, how far earlier owners can have settled, and what waits. Not within the
// claim: an owner that was just being replaced may have settled something between that statement's snapshot and its lock.
func (r *register) inspect(ctx context.Context, got []claimed) error {
	if len(got) == 0 {
		return nil
	}
	index := map[int16]*claimed{}
	var shards []int64
	for n := range got {
		index[got[n].shard] = &got[n]
		shards = append(shards, int64(got[n].shard))
	}
	err := each(ctx, r.db, loadSQL(highestSQL, r.schema), []any{pq.Array(shards)}, func(scan scanner) error {
		var shard int16
		var position int64
		if err := scan(&shard, &position); err != nil {
			return err
		}
		index[shard].highest = position
		return nil
	})
	if err == nil {
		err = each(ctx, r.db, loadSQL(claimLanesSQL, r.schema), []any{pq.Array(shards)}, func(scan scanner) error {
			var l laneRow
			if err := scan(&l.shard, &l.topic, &l.snapshot, &l.position, &l.held, &l.reason, &l.err, &l.failures); err != nil {
				return err
			}
			index[l.shard].lanes = append(index[l.shard].lanes, l)
			return nil
		})
	}
	if err == nil {
		var keys []keyRow
		keys, err = readKeys(ctx, r.db, r.schema, shards)
		for _, k := range keys {
			index[k.shard].keys = append(index[k.shard].keys, k)
		}
	}
	if err != nil {
		return fmt.Errorf("claim shards: %w", err)
	}
	return nil
}

type scanner func(...any) error

// each calls f for every row.
func each(ctx context.Context, db *sql.DB, query string, args []any, f func(scanner) error) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (r *register) leave(ctx context.Context) error {
	if _, err := r.db.ExecContext(ctx, loadSQL(leaveSQL, r.schema), r.relayID); err != nil {
		return fmt.Errorf("leave register: %w", err)
	}
	return nil
}

func newClaimID() string { return uuid.NewString() }
