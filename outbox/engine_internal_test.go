package outbox

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
)

var (
	errRefused = event.Permanent(errors.New("too large"))
	errAway    = errors.New("broker is away")
	someTime   = time.Unix(1_000_000, 0)
)

func testEngine(change ...func(*SubscriberConfig)) *engine {
	config := SubscriberConfig{}
	for _, c := range change {
		c(&config)
	}
	config.setDefaults()
	return newEngine(config, -1)
}

// testItem is an event of shard 0.
func testItem(position int64, key string) *item {
	i := &item{position: position, size: 200}
	i.stored = stored{eventID: fmt.Sprint(position), topic: "orders"}
	i.partitionKey.String, i.partitionKey.Valid = key, true
	return i
}

// reads gives the engine what a read returned.
func reads(t *testing.T, e *engine, snapshot string, items ...*item) {
	t.Helper()
	p, ok := e.planRead()
	require.True(t, ok, "nothing is read")
	r := readResult{snapshot: snapshot, items: items}
	for _, i := range items {
		if i.late {
			r.late++
		}
	}
	e.take(p, r)
}

// end ends a batch with these verdicts.
func end(e *engine, b *Batch, verdicts ...error) {
	for n, err := range verdicts {
		b.Report(n, event.Receipt{}, err)
	}
	_ = e.batchEnded(b, someTime)
}

func settleAll(e *engine) {
	mine := map[int16]bool{}
	for n := range e.shards {
		mine[n] = true
	}
	e.settled(e.planSettle(1000), mine)
}

func batch(t *testing.T, e *engine, at time.Time, want ...string) *Batch {
	t.Helper()
	b := e.nextBatch(at)
	require.NotNil(t, b, "nothing is sent")
	require.Equal(t, want, ids(b.items))
	return b
}

func TestFrontierDoesNotGoBackWhenOnlyLateEventsAreRead(t *testing.T) {
	e := testEngine()
	adopt(e, token{}, frontier{"1:1:", 0}, 0)
	reads(t, e, "T1", testItem(7, "a"))
	late := testItem(3, "b")
	late.late = true
	reads(t, e, "T2", late)
	require.Equal(t, frontier{"T2", 7}, e.shards[0].main.read)
	end(e, batch(t, e, someTime, "7", "3"), nil, nil)
	settleAll(e)
	require.Equal(t, frontier{"T2", 7}, e.shards[0].main.settled)
}

func TestFrontierWaitsForTheEarliestEventThatIsNotSettled(t *testing.T) {
	e := testEngine(func(c *SubscriberConfig) { c.BatchSize = 1 })
	adopt(e, token{}, frontier{"1:1:", 0}, 0)
	reads(t, e, "T1", testItem(1, "a"))
	reads(t, e, "T2", testItem(2, "b"))
	first, second := batch(t, e, someTime, "1"), batch(t, e, someTime, "2")
	end(e, second, nil)
	settleAll(e)
	require.Zero(t, e.shards[0].main.settled.position)
	require.Empty(t, e.planStore(someTime))
	end(e, first, nil)
	require.Zero(t, e.shards[0].main.settled.position, "acknowledged, but without a receipt")
	settleAll(e)
	require.Equal(t, frontier{"T2", 2}, e.shards[0].main.settled)
	require.Len(t, e.planStore(someTime), 1)
}

// A new generation begins only when everything of the old one has come back: until then it is not known what was sent.
func TestNothingIsSentAfterAFailureUntilEveryBatchHasEnded(t *testing.T) {
	e := testEngine(func(c *SubscriberConfig) { c.BatchSize = 2 })
	adopt(e, token{}, frontier{"1:1:", 0}, 0)
	reads(t, e, "T1", testItem(1, "a"), testItem(2, "a"), testItem(3, "a"), testItem(4, "a"), testItem(5, "a"))
	first, second := batch(t, e, someTime, "1", "2"), batch(t, e, someTime, "3", "4")
	later := someTime.Add(time.Hour)
	end(e, second, event.ErrNotAttempted, event.ErrNotAttempted)
	require.Nil(t, e.nextBatch(later))
	end(e, first, nil, errAway)
	require.Nil(t, e.nextBatch(someTime), "not at once")
	require.True(t, e.wakeAt().After(someTime))
	again := batch(t, e, later, "2", "3")
	require.Greater(t, again.Generation(), first.Generation())
	batch(t, e, later, "4", "5")
}

// A batch can bring both an event that is refused for good and, before it under the same key, one that failed for now: the
// first goes first, and the verdict on the other counts only after it.
func TestAnEventThatFailedForNowGoesBeforeTheRefusedOneBehindIt(t *testing.T) {
	e := testEngine()
	adopt(e, token{}, frontier{"1:1:", 0}, 0)
	reads(t, e, "T1", testItem(1, "a"), testItem(2, "a"), testItem(3, "b"))
	end(e, batch(t, e, someTime, "1", "2", "3"), errAway, errRefused, nil)
	require.Empty(t, e.toPark)
	later := someTime.Add(time.Hour)
	end(e, batch(t, e, later, "1", "2"), nil, errRefused)
	require.Len(t, e.toPark, 1)
}

// A refused event is no reason to doubt the broker: other keys go on at once.
func TestAnEventRefusedForGoodDoesNotSlowDownOthers(t *testing.T) {
	e := testEngine(func(c *SubscriberConfig) { c.BatchSize = 1 })
	adopt(e, token{}, frontier{"1:1:", 0}, 0)
	reads(t, e, "T1", testItem(1, "a"), testItem(2, "b"))
	end(e, batch(t, e, someTime, "1"), errRefused)
	batch(t, e, someTime, "2")
}

// What waits in a key belongs to its shard. When the shard was lost and has come back while the refused event was with the
// broker once more, the verdict on that is nobody's any more.
func TestAKeyThatWasLostWithItsShardIsBlockedAsTheDatabaseSays(t *testing.T) {
	e := testEngine()
	adopt(e, token{}, frontier{"1:1:", 0}, 0)
	reads(t, e, "T1", testItem(1, "a"))
	old := batch(t, e, someTime, "1")
	e.lose(e.shards[0])
	e.adopt(claimed{token: token{claimVersion: 2}, frontier: frontier{"1:1:", 0}, keys: []keyRow{{orderKey: orderKey{"orders", "b"}, head: true}}})
	reads(t, e, "T2", testItem(1, "a"), testItem(2, "b"))
	end(e, old, errRefused)
	require.Equal(t, []string{"2"}, parkedIDs(e))
	batch(t, e, someTime.Add(time.Hour), "1")
}

func parkedIDs(e *engine) (ids []string) {
	for _, p := range e.toPark {
		ids = append(ids, p.eventID)
	}
	return ids
}

// While late events are drained nothing new is read. When the shards that have them go, that is over.
func TestDrainingEndsWhenItsShardsAreLost(t *testing.T) {
	e := testEngine(func(c *SubscriberConfig) { c.MaxUnsettled = 2 })
	adopt(e, token{}, frontier{"1:1:", 9}, 0)
	p, ok := e.planRead()
	require.True(t, ok)
	late := []*item{testItem(1, "a"), testItem(2, "b")}
	late[0].late, late[1].late = true, true
	e.take(p, readResult{snapshot: "T1", late: p.maxLate, items: late})
	require.NotNil(t, e.drain)
	e.lose(e.shards[0])
	adopt(e, token{shard: 1, claimVersion: 1}, frontier{"1:1:", 0}, 0)
	i := testItem(3, "c")
	i.stored.shard = 1
	reads(t, e, "T2", i)
	batch(t, e, someTime, "3")
}

func TestAReadBringsNoMoreLateEventsThanThereIsRoomFor(t *testing.T) {
	e := testEngine(func(c *SubscriberConfig) { c.MaxUnsettled = 10 })
	adopt(e, token{}, frontier{"1:1:", 9}, 0)
	reads(t, e, "T1", testItem(11, "a"), testItem(12, "b"), testItem(13, "c"))
	p, ok := e.planRead()
	require.True(t, ok)
	require.Equal(t, 7, p.maxLate)
	late := testItem(1, "d")
	late.late = true
	items := []*item{late}
	for n := range int64(7) {
		items = append(items, testItem(14+n, "e"))
	}
	e.take(p, readResult{snapshot: "T2", late: 1, items: items})
	require.Equal(t, 10, e.rows, "the last of the new ones has to wait")
	require.Equal(t, frontier{"T2", 19}, e.shards[0].main.read)
}

func TestALimitedRunTriesEachEventOnce(t *testing.T) {
	config := SubscriberConfig{}
	config.setDefaults()
	e := newEngine(config, 10)
	adopt(e, token{}, frontier{"1:1:", 0}, 0)
	reads(t, e, "T1", testItem(1, "a"))
	end(e, batch(t, e, someTime, "1"), errAway)
	require.Nil(t, e.nextBatch(someTime.Add(time.Hour)))
}

// Nothing to do costs nothing: the loop sleeps until the next poll, sweep or store.
func TestARelayWithoutShardsOrWithoutRoomDoesNotSpin(t *testing.T) {
	config := SubscriberConfig{MaxUnsettled: 1}
	config.setDefaults()
	now := time.Now()
	x := &session{sub: &Subscriber{config: config}, engine: newEngine(config, -1), parkAt: now.Add(time.Hour), storeAt: now.Add(storePause), sweepAt: now.Add(time.Hour)}
	x.startRead(now)
	require.Greater(t, x.pause(), 100*time.Millisecond, "without shards")
	adopt(x.engine, token{}, frontier{"1:1:", 0}, 0)
	reads(t, x.engine, "T1", testItem(1, "a"))
	require.NotNil(t, x.engine.nextBatch(now))
	x.startRead(now)
	require.Greater(t, x.pause(), 100*time.Millisecond, "without room")
	x.stopping, x.storeAt = true, now.Add(-time.Hour)
	require.Greater(t, x.pause(), 100*time.Millisecond, "waiting for results")
}

// Cached sequences can hand out positions against the order of commits.
func TestEventsOfOneAggregateAreSentByVersion(t *testing.T) {
	e := testEngine()
	adopt(e, token{}, frontier{"1:1:", 0}, 0)
	var items []*item
	for n, version := range []int64{0, 2, 0, 1, 3} {
		i := testItem(int64(n+1), "a")
		if version > 0 {
			i.aggregateType, i.aggregateID, i.aggregateVersion = "order", "a", version
		}
		items = append(items, i)
	}
	reads(t, e, "T1", items...)
	batch(t, e, someTime, "1", "4", "3", "2", "5")
	require.Equal(t, frontier{"T1", 5}, e.shards[0].main.read)
}
