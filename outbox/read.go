package outbox

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lib/pq"
)

//go:embed read.sql
var readSQL string

//go:embed read_late.sql
var readLateSQL string

// errAnchor means that the database is not, or no longer, the incarnation the session began on: it was restarted, restored
// or failed over. What the session remembers of positions and transaction ids means nothing there.
var errAnchor = errors.New("the database is another incarnation than the one the shards were claimed on")

// rangeLimit is how many events of one transaction, or of all transactions younger than the frontier, a read looks through
// for late ones before it leaves them to be drained in pages. It keeps the expected cost of a read, and so its plan, the same
// whatever the size of the table.
const rangeLimit = 200

// readPlan is what one read asks for: see read.sql, or read_late.sql while late events are drained.
type readPlan struct {
	lanes         []*lane
	wanted        []int
	upto          []int64
	epochs        []int
	rows          int
	maxBytes      int64
	maxLate       int
	drainAfter    int64
	drainSnapshot string
}

type readResult struct {
	snapshot string
	version  int64   // of the control row
	highest  []int64 // position in each lane's shard, up to its window; nil if no lane was asked for it
	late     int     // late events there are, up to maxLate
	cut      bool    // some were left out for want of room
	items    []*item
}

// visible is the highest position that was to be seen in the n-th lane's shard, up to its window.
func (r readResult) visible(n int) int64 {
	if n < len(r.highest) {
		return r.highest[n]
	}
	return 0
}

// reader reads the outbox for one session.
type reader struct {
	db          *sql.DB
	direct      *direct // nil = none
	query, late string
	anchor      string
}

func newReader(db *sql.DB, own *direct, schema, anchor string) reader {
	return reader{db: db, direct: own, query: loadSQL(readSQL, schema), late: loadSQL(readLateSQL, schema), anchor: anchor}
}

func (r reader) read(ctx context.Context, p readPlan) (readResult, error) { return r.plan(p)(ctx) }

// plan takes down what a read asks for, so that the lanes may change while the database is asked.
func (r reader) plan(p readPlan) func(ctx context.Context) (readResult, error) {
	n := len(p.lanes)
	shards, positions, groups, wanted := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	topics, excluded := make([]string, n), make([]string, n)
	var snapshots []string
	var highest []int64
	group := map[string]int64{}
	for k, l := range p.lanes {
		g, ok := group[l.read.snapshot]
		if !ok {
			snapshots, highest = append(snapshots, l.read.snapshot), append(highest, 0)
			g = int64(len(snapshots))
			group[l.read.snapshot] = g
		}
		highest[g-1] = max(highest[g-1], l.read.position)
		shards[k], positions[k], groups[k], wanted[k] = int64(l.shard.token.shard), l.read.position, g, int64(p.wanted[k])
		topics[k], excluded[k] = l.topic, l.excluded()
	}
	query, args := r.query, []any{pq.Array(shards), pq.Array(positions), pq.Array(groups), pq.Array(snapshots)}
	if p.drainSnapshot == "" {
		args = append(args, pq.Array(wanted), pq.Array(p.upto), p.maxBytes, p.maxLate, rangeLimit)
	} else {
		query, args = r.late, append(args, p.drainSnapshot, p.drainAfter, p.maxLate, p.maxBytes)
	}
	args = append(args, pq.Array(topics), pq.Array(excluded), pq.Array(highest))
	return func(ctx context.Context) (readResult, error) { return r.ask(ctx, query, args, p.rows) }
}

func (r reader) ask(ctx context.Context, query string, args []any, expected int) (readResult, error) {
	if rows, ok := r.direct.query(ctx, query, args); ok {
		res, err := r.scan(rows, expected)
		if err == nil {
			return res, nil
		}
		r.direct.failed()
	}
	rows, err := r.db.QueryContext(ctx, query, args...)
	if err != nil {
		return readResult{}, fmt.Errorf("read: %w", err)
	}
	return r.scan(rows, expected)
}

func (r reader) scan(rows *sql.Rows, expected int) (readResult, error) {
	defer rows.Close()
	res := readResult{items: make([]*item, 0, min(expected, 4096))}
	for rows.Next() {
		var head sql.NullString
		var raw sql.RawBytes
		if err := rows.Scan(&head, &raw); err != nil {
			return readResult{}, fmt.Errorf("read: %w", err)
		}
		if head.Valid {
			if err := res.begin(head.String, r.anchor); err != nil {
				return readResult{}, err
			}
		}
		if raw == nil {
			continue
		}
		row, err := readWireRow(raw)
		if err != nil {
			return readResult{}, fmt.Errorf("read: %w", err)
		}
		lane, fresh, cut, delay := int(row.num())-1, row.num() == 1, row.num() == 1, row.num()
		i := row.event()
		if err := row.end(); err != nil {
			return readResult{}, fmt.Errorf("read: %w", err)
		}
		i.lane, i.late, i.delay = lane, !fresh, delay
		res.cut = res.cut || cut // or all there was just fits: reading again tells
		res.items = append(res.items, i)
	}
	if err := rows.Err(); err != nil {
		return readResult{}, fmt.Errorf("read: %w", err)
	}
	slices.SortFunc(res.items, func(a, b *item) int { return cmp.Compare(a.position, b.position) })
	return res, nil
}

// begin takes in what the first row says of all.
func (r *readResult) begin(head, anchor string) error {
	var h struct {
		Snapshot, Anchor string
		Version          int64
		Highest          []int64
		Late             int
	}
	if err := json.Unmarshal([]byte(head), &h); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if h.Anchor != anchor {
		return errAnchor
	}
	r.snapshot, r.version, r.highest, r.late = h.Snapshot, h.Version, h.Highest, h.Late
	return nil
}
