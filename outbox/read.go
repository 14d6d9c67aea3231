package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

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
	version  int64         // of the control row
	highest  pq.Int64Array // position in each lane's shard, up to its window; nil if no lane was asked for it
	late     int           // late events there are, up to maxLate
	cut      bool          // some were left out for want of room
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
	query, late string
	anchor      string
}

func newReader(db *sql.DB, schema, anchor string) reader {
	return reader{db: db, query: loadSQL(readSQL, schema), late: loadSQL(readLateSQL, schema), anchor: anchor}
}

func (r reader) read(ctx context.Context, p readPlan) (readResult, error) {
	n := len(p.lanes)
	shards, positions, groups, wanted := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	topics, excluded := make([]string, n), make([]string, n)
	var snapshots []string
	group := map[string]int64{}
	for k, l := range p.lanes {
		g, ok := group[l.read.snapshot]
		if !ok {
			snapshots = append(snapshots, l.read.snapshot)
			g = int64(len(snapshots))
			group[l.read.snapshot] = g
		}
		shards[k], positions[k], groups[k], wanted[k] = int64(l.shard.token.shard), l.read.position, g, int64(p.wanted[k])
		topics[k], excluded[k] = l.topic, l.excluded()
	}
	query, args := r.query, []any{pq.Array(shards), pq.Array(positions), pq.Array(groups), pq.Array(snapshots)}
	if p.drainSnapshot == "" {
		args = append(args, pq.Array(wanted), pq.Array(p.upto), p.maxBytes, p.maxLate, rangeLimit)
	} else {
		query, args = r.late, append(args, p.drainSnapshot, p.drainAfter, p.maxLate, p.maxBytes)
	}
	rows, err := r.db.QueryContext(ctx, query, append(args, pq.Array(topics), pq.Array(excluded))...)
	if err != nil {
		return readResult{}, fmt.Errorf("read: %w", err)
	}
	defer rows.Close()
	res := readResult{items: make([]*item, 0, min(p.rows, 4096))}
	var anchor string
	var total int
	for rows.Next() {
		var row scannedItem
		var rowTotal, delay, number sql.NullInt64
		var fresh sql.NullBool
		if err := rows.Scan(append([]any{&res.snapshot, &anchor, &res.version, &res.highest, &res.late, &rowTotal, &fresh, &number, &delay}, row.columns()...)...); err != nil {
			return readResult{}, fmt.Errorf("read: %w", err)
		}
		if rowTotal.Valid {
			total = int(rowTotal.Int64)
			i := row.item()
			i.late, i.lane, i.delay = !fresh.Bool, int(number.Int64)-1, delay.Int64
			res.items = append(res.items, i)
		}
	}
	if err := rows.Err(); err != nil {
		return readResult{}, fmt.Errorf("read: %w", err)
	}
	if anchor != r.anchor {
		return readResult{}, errAnchor
	}
	res.cut = total > len(res.items)
	return res, nil
}

// scannedItem scans the columns of an event, which are null in the row that carries none.
type scannedItem struct {
	shard, eventVersion                              sql.NullInt32
	position, aggregateVersion                       sql.NullInt64
	eventID, topic, kind, aggregateType, aggregateID sql.NullString
	eventType, tenant, partitionKey                  sql.NullString
	payload, metadata                                []byte
	tombstone                                        sql.NullBool
	createdAt                                        sql.NullTime
}

func (r *scannedItem) columns() []any {
	return []any{
		&r.shard, &r.position, &r.eventID, &r.topic, &r.kind, &r.aggregateType, &r.aggregateID, &r.aggregateVersion,
		&r.eventType, &r.eventVersion, &r.tenant, &r.partitionKey, &r.payload, &r.tombstone, &r.metadata, &r.createdAt,
	}
}

func (r *scannedItem) item() *item {
	i := &item{position: r.position.Int64}
	i.stored = stored{
		shard:   int16(r.shard.Int32), //nolint:gosec // a smallint
		eventID: r.eventID.String, topic: r.topic.String, kind: r.kind.String,
		aggregateType: r.aggregateType.String, aggregateID: r.aggregateID.String, aggregateVersion: r.aggregateVersion.Int64,
		eventType: r.eventType.String, eventVersion: int(r.eventVersion.Int32), tenant: r.tenant.String,
		partitionKey: r.partitionKey, payload: r.payload, metadata: r.metadata, createdAt: r.createdAt.Time,
	}
	if r.payload == nil && !r.tombstone.Bool {
		i.payload = []byte{} // lib/pq reads an empty value as null where bytea_output is escape
	}
	i.size = int64(200 + len(r.payload) + len(r.metadata))
	return i
}
