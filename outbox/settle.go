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

//go:embed settle_parked.sql
var settleParkedSQL string

//go:embed frontier_store.sql
var storeSQL string

//go:embed claim_release.sql
var releaseSQL string

// settler writes, under the owner's tokens, what became of events.
type settler struct {
	db             *sql.DB
	settle, parked string
	storeFrontiers string
	releaseShards  string
	anchor         string
}

func newSettler(db *sql.DB, schema, anchor string) settler {
	return settler{
		db: db, settle: loadSQL(settleSQL, schema), parked: loadSQL(settleParkedSQL, schema), storeFrontiers: loadSQL(storeSQL, schema),
		releaseShards: loadSQL(releaseSQL, schema), anchor: anchor,
	}
}

// receipts writes the receipts of acknowledged events, which have a parked row all of them or none, and returns the shards that
// are still this owner's. In the others nothing was written.
func (s settler) receipts(ctx context.Context, items []*item) (mine map[int16]bool, err error) {
	n := len(items)
	owners := make([]*shard, n)
	of, positions, partitions, offsets, attempts := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	ids := make([]string, n)
	var topics []string
	for k, i := range items {
		owners[k] = i.shard
		of[k], positions[k], ids[k], attempts[k] = int64(i.stored.shard), i.position, i.eventID, int64(i.attempts)
		partitions[k], offsets[k] = int64(i.receipt.Partition), i.receipt.Offset
		if i.parked != nil {
			attempts[k] += int64(i.parked.attempts)
			topics = append(topics, i.parked.topic)
		}
	}
	query, args := s.settle, append(tokensOf(owners), s.anchor,
		pq.Array(of), pq.Array(positions), pq.Array(ids), pq.Array(partitions), pq.Array(offsets), pq.Array(attempts))
	if topics != nil {
		query, args = s.parked, append(args, pq.Array(topics))
	}
	if mine, err = shardSet(ctx, s.db, query, args...); err != nil {
		return nil, fmt.Errorf("settle: %w", err)
	}
	return mine, nil
}

// tokensOf are the tokens of the shards, each once, as parameters.
func tokensOf(shards []*shard) []any {
	var tokens []token
	seen := map[*shard]bool{}
	for _, s := range shards {
		if !seen[s] {
			seen[s] = true
			tokens = append(tokens, s.token)
		}
	}
	return tokenArgs(tokens)
}

// tokenArgs are tokens as parameters: shards, claim_ids, claim_versions.
func tokenArgs(tokens []token) []any {
	var shards, versions []int64
	var claims []string
	for _, t := range tokens {
		shards, claims, versions = append(shards, int64(t.shard)), append(claims, t.claimID), append(versions, t.claimVersion)
	}
	return []any{pq.Array(shards), pq.Array(claims), pq.Array(versions)}
}

// shardSet runs a statement that returns shards.
func shardSet(ctx context.Context, db *sql.DB, query string, args ...any) (map[int16]bool, error) {
	set := map[int16]bool{}
	err := each(ctx, db, query, args, func(scan scanner) error {
		var shard int16
		err := scan(&shard)
		set[shard] = true
		return err
	})
	return set, err
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
	well bool // its owner gets on
}

func (s settler) exec(ctx context.Context, what, query string, of []tokenFrontier) error {
	if len(of) == 0 {
		return nil
	}
	tokens, well := make([]token, len(of)), make([]bool, len(of))
	positions, snapshots := make([]int64, len(of)), make([]string, len(of))
	for n, t := range of {
		tokens[n], snapshots[n], positions[n], well[n] = t.token, t.snapshot, t.position, t.well
	}
	_, err := s.db.ExecContext(ctx, query, append(tokenArgs(tokens), pq.Array(snapshots), pq.Array(positions), s.anchor, pq.Array(well))...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
