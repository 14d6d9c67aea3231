package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"

	"github.com/lib/pq"
)

var (
	//go:embed lane_save.sql
	laneSaveSQL string
	//go:embed lane_drop.sql
	laneDropSQL string
)

// laneStore writes the lanes of held topics.
type laneStore struct {
	db         *sql.DB
	anchor     string
	save, drop string
}

func newLaneStore(db *sql.DB, schema, anchor string) laneStore {
	return laneStore{db: db, anchor: anchor, save: loadSQL(laneSaveSQL, schema), drop: loadSQL(laneDropSQL, schema)}
}

// write saves and drops lanes. Of shards that are not this owner's any more, nothing is written.
func (s laneStore) write(ctx context.Context, save, drop []laneRow) error {
	if len(save) > 0 {
		args := laneTokens(save)
		var topics, snapshots, reasons, texts []string
		var positions, failures []int64
		var held []bool
		for _, l := range save {
			topics, snapshots, positions = append(topics, l.topic), append(snapshots, l.snapshot), append(positions, l.position)
			held, reasons, texts, failures = append(held, l.held), append(reasons, l.reason), append(texts, l.err), append(failures, int64(l.failures))
		}
		_, err := shardSet(ctx, s.db, s.save, append(args, s.anchor, pq.Array(topics), pq.Array(snapshots), pq.Array(positions), pq.Array(held),
			pq.Array(reasons), pq.Array(texts), pq.Array(failures))...)
		if err != nil {
			return fmt.Errorf("save lanes: %w", err)
		}
	}
	if len(drop) > 0 {
		var topics []string
		for _, l := range drop {
			topics = append(topics, l.topic)
		}
		if _, err := s.db.ExecContext(ctx, s.drop, append(laneTokens(drop), s.anchor, pq.Array(topics))...); err != nil {
			return fmt.Errorf("drop lanes: %w", err)
		}
	}
	return nil
}

func laneTokens(lanes []laneRow) []any {
	tokens := make([]token, len(lanes))
	for n, l := range lanes {
		tokens[n] = l.token
	}
	return tokenArgs(tokens)
}
