package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"time"

	"github.com/lib/pq"
)

//go:embed sweep.sql
var sweepSQL string

//go:embed sweep_lowest.sql
var sweepLowestSQL string

const (
	sweepWindow = 100_000 // positions of one statement
	sweepRows   = 1000
	sweepBudget = 500 * time.Millisecond // of one sweep, after which the next goes on
	fullSweeps  = 60                     // sweep intervals from one beginning to the next
)

// sweeper goes over what lies below the settled frontiers, again and again: each sweep goes on where the last one ended, and
// one in fullSweeps, and after a claim, from the beginning.
type sweeper struct {
	db            *sql.DB
	query, lowest string
	full          time.Duration
	position      int64 // swept up to here; -1 = begin
	begun         time.Time
}

func newSweeper(db *sql.DB, schema string, interval time.Duration) *sweeper {
	return &sweeper{
		db: db, query: loadSQL(sweepSQL, schema), lowest: loadSQL(sweepLowestSQL, schema), full: fullSweeps * interval, position: -1,
	}
}

// laneFrontier is how far a lane is settled, and what it is a lane of.
type laneFrontier struct {
	tokenFrontier
	topic, excluded string
}

// sweep returns unsettled events below the frontiers given, from the first window that has any. It is not for concurrent use.
func (s *sweeper) sweep(ctx context.Context, of []laneFrontier, full bool, limit room) ([]*item, error) {
	var shards, positions []int64
	var snapshots, topics, excluded []string
	var highest int64
	for _, t := range of {
		shards = append(shards, int64(t.shard))
		positions = append(positions, t.position)
		snapshots = append(snapshots, t.snapshot)
		topics, excluded = append(topics, t.topic), append(excluded, t.excluded)
		highest = max(highest, t.position)
	}
	start := time.Now()
	if full || start.Sub(s.begun) > s.full {
		var lowest int64
		if err := s.db.QueryRowContext(ctx, s.lowest, pq.Array(shards)).Scan(&lowest); err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
		s.position, s.begun = lowest-1, start
	}
	for s.position < highest && time.Since(start) < sweepBudget {
		to := min(s.position+sweepWindow, highest)
		items, err := s.window(ctx, pq.Array(shards), pq.Array(snapshots), pq.Array(positions), s.position, to, limit.rows, limit.bytes, pq.Array(topics), pq.Array(excluded))
		if err != nil {
			return nil, err
		}
		s.position = to
		if len(items) > 0 {
			return items, nil
		}
	}
	return nil, nil
}

// again makes the next sweep go over the window of these events once more: there may be others.
func (s *sweeper) again(items []*item) { s.position = items[0].position - 1 }

func (s *sweeper) window(ctx context.Context, args ...any) (items []*item, err error) {
	err = each(ctx, s.db, s.query, args, func(scan scanner) error {
		var raw sql.RawBytes
		if err := scan(&raw); err != nil {
			return err
		}
		row, err := readWireRow(raw)
		if err != nil {
			return err
		}
		delay := row.num()
		i := row.event()
		i.delay = delay
		items = append(items, i)
		return row.end()
	})
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	return items, nil
}
