package bench_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/bench"
	"github.com/millrace-go/millrace/event"
)

func record(id, aggregate string, version int) *kgo.Record {
	return &kgo.Record{Headers: []kgo.RecordHeader{
		{Key: event.IDKey, Value: []byte(id)}, {Key: event.AggregateIDKey, Value: []byte(aggregate)},
		{Key: event.AggregateVersionKey, Value: []byte(strconv.Itoa(version))},
	}}
}

func TestLostDuplicatedAndReorderedAreCountedFromTheRecords(t *testing.T) {
	var events []*message.Message
	for _, id := range []string{"a1", "a2", "a3", "b1"} {
		events = append(events, event.New("x", nil, event.WithID(id)))
	}
	a1, a2, a3, b1 := record("a1", "a", 1), record("a2", "a", 2), record("a3", "a", 3), record("b1", "b", 1)
	for _, c := range []struct {
		records                     []*kgo.Record
		lost, duplicated, reordered int
	}{
		{[]*kgo.Record{a1, a2, a3, b1}, 0, 0, 0},
		{[]*kgo.Record{b1, a1, a2, a3, a2, a3}, 0, 2, 0},
		{[]*kgo.Record{a2, a1, a3, b1}, 0, 0, 1},
		{[]*kgo.Record{a1, a3}, 2, 0, 0},
		{nil, 4, 0, 0},
	} {
		lost, duplicated, reordered := bench.Compare(events, c.records)
		require.Equal(t, [3]int{c.lost, c.duplicated, c.reordered}, [3]int{lost, duplicated, reordered})
	}
}

func TestTheRateLeavesOutTheFirstAppend(t *testing.T) {
	start := time.Unix(1, 0)
	var records []*kgo.Record
	for _, milliseconds := range []int64{500, 0, 0, 1000, 2000} {
		records = append(records, &kgo.Record{Timestamp: start.Add(time.Duration(milliseconds) * time.Millisecond)})
	}
	seconds, perSecond := bench.Rate(records)
	require.InDelta(t, 2.0, seconds, 1e-9)
	require.InDelta(t, 1.5, perSecond, 1e-9)
	for _, tooFew := range [][]*kgo.Record{nil, records[:1], records[1:3]} {
		seconds, perSecond = bench.Rate(tooFew)
		require.Zero(t, seconds)
		require.Zero(t, perSecond)
	}
}

func TestPercentiles(t *testing.T) {
	var all []time.Duration
	for n := 100; n > 0; n-- {
		all = append(all, time.Duration(n)*time.Millisecond)
	}
	require.InDelta(t, 50.0, bench.Percentile(all, 50), 1e-9)
	require.InDelta(t, 99.0, bench.Percentile(all, 99), 1e-9)
	require.InDelta(t, 100.0, bench.Percentile(all, 100), 1e-9)
	require.InDelta(t, 1.0, bench.Percentile(all[99:], 50), 1e-9)
	require.Zero(t, bench.Percentile(nil, 50))
}
