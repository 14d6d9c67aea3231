package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"

	"github.com/lib/pq"
)

//go:embed settle.sql
var settleSQL string

//go:embed frontier_store.sql
var storeSQL string

//go:embed claim_release.sql
var releaseSQL string

// settler writes, under the owner's tokens, what became of events.
type settler struct {
	db             *sql.DB
	settle         string
	storeFrontiers string
	releaseShards  string
	anchor         string
}

func newSettler(db *sql.DB, schema, anchor string) settler {
	return settler{
		db: db, settle: loadSQL(settleSQL, schema), storeFrontiers: loadSQL(storeSQL, schema),
		releaseShards: loadSQL(releaseSQL, schema), anchor: anchor,
	}
}

// receipts writes the receipts of acknowledged events and returns the shards that are still this owner's. In the others
// nothing was written.
func (s settler) receipts(ctx context.Context, items []*item) (mine map[int16]bool, err error) {
	var shards, versions []int64
	var claims []string
	seen := map[*shard]bool{}
	n := len(items)
	of, positions, partitions, offsets, attempts := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	ids := make([]string, n)
	for k, i := range items {
		if !seen[i.shard] {
			seen[i.shard] = true
			shards = append(shards, int64(i.shard.token.shard))
			versions = append(versions, i.shard.claimVersion)
			claims = append(claims, i.shard.claimID)
		}
		of[k], positions[k], ids[k], attempts[k] = int64(i.stored.shard), i.position, i.eventID, int64(i.attempts)
		partitions[k], offsets[k] = int64(i.receipt.Partition), i.receipt.Offset
	}
	rows, err := s.db.QueryContext(ctx, s.settle, pq.Array(shards), pq.Array(claims), pq.Array(versions), s.anchor,
		pq.Array(of), pq.Array(positions), pq.Array(ids), pq.Array(partitions), pq.Array(offsets), pq.Array(attempts))
	if err != nil {
		return nil, fmt.Errorf("settle: %w", err)
	}
	defer rows.Close()
	mine = make(map[int16]bool, len(shards))
	for rows.Next() {
		var shard int16
		if err := rows.Scan(&shard); err != nil {
			return nil, fmt.Errorf("settle: %w", err)
		}
		mine[shard] = true
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("settle: %w", err)
	}
	return mine, nil
}

// store stores settled frontiers.
func (s settler) store(ctx context.Context, shards []tokenFrontier) error {
	return s.exec(ctx, "store frontiers", s.storeFrontiers, shards)
}

// release gives shards back.
func (s settler) release(ctx context.Context, shards []tokenFrontier) error {
	return s.exec(ctx, "release shards", s.releaseShards, shards)
}

// tokenFrontier is a shard's token and how far it is settled, copied so that it can be written while the engine goes on.
type tokenFrontier struct {
	token
	frontier
}

func (s settler) exec(ctx context.Context, what, query string, of []tokenFrontier) error {
	if len(of) == 0 {
		return nil
	}
	var shards, versions, positions []int64
	var claims, snapshots []string
	for _, t := range of {
		shards = append(shards, int64(t.shard))
		claims = append(claims, t.claimID)
		versions = append(versions, t.claimVersion)
		snapshots = append(snapshots, t.snapshot)
		positions = append(positions, t.position)
	}
	_, err := s.db.ExecContext(ctx, query, pq.Array(shards), pq.Array(claims), pq.Array(versions), pq.Array(snapshots), pq.Array(positions), s.anchor)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
