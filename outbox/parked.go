package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/lib/pq"

	"github.com/millrace-go/millrace/event"
)

var (
	//go:embed park.sql
	parkSQL string
	//go:embed parked_due.sql
	dueSQL string
	//go:embed parked_followers.sql
	followersSQL string
	//go:embed parked_keys.sql
	keysSQL string
	//go:embed control.sql
	controlSQL string
	//go:embed parked_first.sql
	firstErrorsSQL string
	//go:embed suspect.sql
	suspectSQL string
)

// failure is why an event was parked, as it is stored: never with what is in the event.
type failure struct{ stage, class, text string }

// errDecode marks what was wrong with the row itself.
var errDecode = errors.New("cannot be decoded")

func failureOf(err error) failure {
	f := failure{stage: "publish", class: event.Class(err), text: shorten(err.Error())}
	if errors.Is(err, errDecode) {
		f.stage, f.class = "decode", "undecodable"
	}
	if f.class == "" {
		f.class = "refused"
	}
	return f
}

const maxErrorLength = 500

// shorten makes one line of at most maxErrorLength bytes of an error text.
func shorten(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxErrorLength {
		text = strings.ToValidUTF8(text[:maxErrorLength-3], "") + "..."
	}
	return text
}

// parker reads and writes parked rows for one session.
type parker struct {
	db                                            *sql.DB
	name                                          string
	anchor                                        string
	park, due, followers, control, suspect, first string
}

func newParker(db *sql.DB, schema, name, anchor string) parker {
	return parker{
		db: db, name: name, anchor: anchor,
		park: loadSQL(parkSQL, schema), due: loadSQL(dueSQL, schema), followers: loadSQL(followersSQL, schema),
		control: loadSQL(controlSQL, schema), suspect: loadSQL(suspectSQL, schema), first: loadSQL(firstErrorsSQL, schema),
	}
}

// write writes rows and returns the shards that are still this owner's.
func (p parker) write(ctx context.Context, rows []parkedAs) (mine map[int16]bool, err error) {
	n := len(rows)
	owners := make([]*shard, n)
	shards, positions, attempts, delays, revisions := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	ids, states, stages, classes, texts := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	blocks, skipped := make([]bool, n), make([]bool, n)
	for k, r := range rows {
		owners[k] = r.shard
		shards[k], positions[k], ids[k], states[k], blocks[k] = int64(r.stored.shard), r.position, r.eventID, r.state, r.blocks
		attempts[k], delays[k], skipped[k], revisions[k] = int64(r.attempts), r.delay.Milliseconds(), r.skipped, -1
		stages[k], classes[k], texts[k] = r.failure.stage, r.failure.class, r.failure.text
		if r.item.parked != nil {
			revisions[k] = int64(r.item.parked.revision)
		}
	}
	args := append(tokensOf(owners), p.anchor, p.name, pq.Array(shards), pq.Array(positions), pq.Array(ids), pq.Array(states), pq.Array(blocks),
		pq.Array(attempts), pq.Array(delays), pq.Array(stages), pq.Array(classes), pq.Array(texts), pq.Array(revisions), pq.Array(skipped))
	if mine, err = shardSet(ctx, p.db, p.park, args...); err != nil {
		return nil, fmt.Errorf("park: %w", err)
	}
	return mine, nil
}

// firstErrors are why the rows among those that had been parked before were parked in the first place.
func (p parker) firstErrors(ctx context.Context, rows []parkedAs) (map[place]string, error) {
	var shards, positions []int64
	for _, r := range rows {
		if r.item.parked != nil && r.failure.text != "" {
			shards, positions = append(shards, int64(r.stored.shard)), append(positions, r.position)
		}
	}
	if len(shards) == 0 {
		return nil, nil
	}
	first := map[place]string{}
	err := each(ctx, p.db, p.first, []any{pq.Array(shards), pq.Array(positions)}, func(scan scanner) error {
		var at place
		var text string
		err := scan(&at.shard, &at.position, &text)
		first[at] = text
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read first errors: %w", err)
	}
	return first, nil
}

// memory is which rows a relay has in memory.
type memory struct{ shards, positions []int64 }

func (m *memory) add(i *item) {
	m.shards, m.positions = append(m.shards, int64(i.stored.shard)), append(m.positions, i.position)
}

// readDue reads rows that have been due for that long. next is when something else is due, negative = never.
func (p parker) readDue(ctx context.Context, shards []int64, held []string, limit room, loaded memory, age time.Duration) (items []*item, next time.Duration, err error) {
	next = -1
	args := []any{pq.Array(shards), pq.Array(held), limit.rows, limit.bytes, pq.Array(loaded.shards), pq.Array(loaded.positions), age.Milliseconds()}
	err = each(ctx, p.db, p.due, args, func(scan scanner) error {
		var wait sql.NullInt64
		i, err := scanParked(scan, &wait)
		if wait.Valid {
			next = time.Duration(wait.Int64) * time.Millisecond
		}
		if i != nil {
			items = append(items, i)
		}
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read due events: %w", err)
	}
	return items, next, nil
}

// readFollowers reads the first events of keys, in order, and says of which keys there are more.
func (p parker) readFollowers(ctx context.Context, of []keyRow, rows int, bytes int64, loaded memory) (items []*item, more map[orderKey]bool, err error) {
	var shards, after []int64
	var topics, keys []string
	for _, k := range of {
		shards, topics, keys, after = append(shards, int64(k.shard)), append(topics, k.topic), append(keys, k.key), append(after, k.after)
	}
	more = map[orderKey]bool{}
	args := []any{pq.Array(shards), pq.Array(topics), pq.Array(keys), rows, bytes, pq.Array(loaded.shards), pq.Array(loaded.positions), pq.Array(after)}
	err = each(ctx, p.db, p.followers, args, func(scan scanner) error {
		var number int
		var rest bool
		i, err := scanParked(scan, &number, &rest)
		if err != nil {
			return err
		}
		if rest {
			more[of[number-1].orderKey] = true
		}
		if i != nil {
			items = append(items, i)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read followers: %w", err)
	}
	return items, more, nil
}

// scanParked scans a row's event, or nil, after other columns.
func scanParked(scan scanner, others ...any) (*item, error) {
	var raw []byte
	if err := scan(append(others, &raw)...); err != nil || raw == nil {
		return nil, err
	}
	row, err := readWireRow(raw)
	if err != nil {
		return nil, err
	}
	p := &parked{}
	p.state, _ = row.str()
	p.blocks, p.attempts, p.revision, p.entry = row.num() == 1, int(row.num()), int(row.num()), row.num()
	p.topic, _ = row.str()
	p.metadata = row.jsonb()
	i := row.event()
	i.parked = p
	return i, row.end()
}

// readControl reads what operators have changed, for the shards given.
func (p parker) readControl(ctx context.Context, schema string, shards []int64) (c control, err error) {
	var topics, kinds, ids pq.StringArray
	if err := p.db.QueryRowContext(ctx, p.control).Scan(&c.version, &topics, &kinds, &ids); err != nil {
		return control{}, fmt.Errorf("read control: %w", err)
	}
	c.pauses = pauses{topics: map[string]bool{}, aggregates: map[aggregate]bool{}}
	for _, topic := range topics {
		c.topics[topic] = true
	}
	for n := range ids {
		c.aggregates[aggregate{kinds[n], ids[n]}] = true
	}
	if c.keys, err = readKeys(ctx, p.db, schema, shards); err != nil {
		return control{}, fmt.Errorf("read control: %w", err)
	}
	return c, nil
}

func readKeys(ctx context.Context, db *sql.DB, schema string, shards []int64) (keys []keyRow, err error) {
	err = each(ctx, db, loadSQL(keysSQL, schema), []any{pq.Array(shards)}, func(scan scanner) error {
		var k keyRow
		err := scan(&k.shard, &k.topic, &k.key, &k.head, &k.aggregate.kind, &k.aggregate.id)
		keys = append(keys, k)
		return err
	})
	return keys, err
}

// putOnRecord says that an event is about to be sent alone. ErrLeaseLost if its shard is another's.
func (p parker) putOnRecord(ctx context.Context, t token, position int64) error {
	result, err := p.db.ExecContext(ctx, p.suspect, t.shard, t.claimID, t.claimVersion, p.anchor, position)
	if err != nil {
		return fmt.Errorf("put on record: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(ErrLeaseLost, err)
	}
	return nil
}
