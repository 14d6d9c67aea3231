package bench

import (
	"context"
	"time"
)

const (
	idleSettle = 12 * time.Second // until every backend has told the statistics what it did before
	idleWindow = 6 * time.Second
)

// idleQueries counts the transactions of the relay while nothing happens. It asks from another database, so that its own are
// not among them.
func (b *stage) idleQueries(ctx context.Context) (float64, error) {
	count := func() (n int64, at time.Time, err error) {
		err = b.DB.QueryRowContext(ctx, "select xact_commit + xact_rollback from pg_stat_database where datname = $1", b.name).Scan(&n)
		return n, time.Now(), err
	}
	b.db.SetMaxIdleConns(0) // what they did before is counted now
	b.Progress("idle", 0, 1)
	if err := pause(ctx, idleSettle); err != nil {
		return 0, err
	}
	before, from, err := count()
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, idleWindow); err != nil {
		return 0, err
	}
	after, to, err := count()
	return float64(after-before) / to.Sub(from).Seconds(), err
}
