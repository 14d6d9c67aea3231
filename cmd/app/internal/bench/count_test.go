package bench_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/bench"
)

func records(t *testing.T, numbers ...int) []*kgo.Record {
	t.Helper()
	var all []*kgo.Record
	for _, n := range numbers {
		r, err := bench.Record(2, n)
		require.NoError(t, err)
		all = append(all, r)
	}
	return all
}

func TestLostDuplicatedAndReorderedAreCountedFromTheRecords(t *testing.T) {
	for _, c := range []struct {
		numbers                     []int // even and odd ones belong to different aggregates
		lost, duplicated, reordered int
	}{
		{[]int{0, 1, 2, 3}, 0, 0, 0},
		{[]int{1, 3, 0, 2}, 0, 0, 0},
		{[]int{0, 1, 2, 1, 3, 0}, 0, 2, 0},
		{[]int{2, 0, 1, 3}, 0, 0, 1},
		{[]int{2, 3}, 2, 0, 0},
		{nil, 4, 0, 0},
	} {
		lost, duplicated, reordered := bench.Count(2, 4, records(t, c.numbers...)...)
		require.Equal(t, [3]int{c.lost, c.duplicated, c.reordered}, [3]int{lost, duplicated, reordered}, "%v", c.numbers)
	}
}

func TestWhatWasNotWrittenStandsForNoEvent(t *testing.T) {
	all := records(t, 0, 1, 2)
	all[0].Value = append([]byte(nil), all[0].Value[1:]...)
	all[1].Headers = nil
	lost, duplicated, reordered := bench.Count(2, 3, all...)
	require.Equal(t, [3]int{2, 0, 0}, [3]int{lost, duplicated, reordered})
}

func TestAnAggregateOnTwoPartitionsHasNoOrder(t *testing.T) {
	all := records(t, 0, 2)
	all[1].Partition = 1
	_, _, reordered := bench.Count(2, 2, all...)
	require.Equal(t, 1, reordered)
}

func TestEventsAreJSONOf300Bytes(t *testing.T) {
	for _, n := range []int{0, 999_999} {
		value := records(t, n)[0].Value
		require.Len(t, value, 300)
		require.True(t, json.Valid(value))
	}
}

func TestTheRateLeavesOutTheFirstAppend(t *testing.T) {
	start := time.Unix(1, 0)
	at := func(milliseconds ...int) (all []time.Time) {
		for _, ms := range milliseconds {
			all = append(all, start.Add(time.Duration(ms)*time.Millisecond))
		}
		return all
	}
	seconds, perSecond := bench.Rate(at(500, 0, 0, 1000, 2000)...)
	require.InDelta(t, 2.0, seconds, 1e-9)
	require.InDelta(t, 1.5, perSecond, 1e-9)
	for _, tooFew := range [][]time.Time{nil, at(500), at(0, 0)} {
		seconds, perSecond := bench.Rate(tooFew...)
		require.Zero(t, seconds)
		require.Zero(t, perSecond)
	}
}

func TestPercentilesAndMedian(t *testing.T) {
	var all []time.Duration
	for n := 100; n > 0; n-- {
		all = append(all, time.Duration(n)*time.Millisecond)
	}
	require.InDelta(t, 50.0, bench.Percentile(all, 50), 1e-9)
	require.InDelta(t, 99.0, bench.Percentile(all, 99), 1e-9)
	require.InDelta(t, 100.0, bench.Percentile(all, 100), 1e-9)
	require.InDelta(t, 1.0, bench.Percentile(all[99:], 50), 1e-9)
	require.Zero(t, bench.Percentile(nil, 50))
	require.Equal(t, 98*time.Millisecond, bench.Median(all[:5]))
	require.Zero(t, bench.Median(nil))
}

func TestWritersShareTheAggregatesAndEachKeepsItsOrder(t *testing.T) {
	seen := map[int]bool{}
	aggregates := 0
	for writer := range bench.Writers {
		aggregates += bench.Own(writer, bench.Writers)
		for nth := range 2 * bench.Own(writer, bench.Writers) {
			n := bench.NthOf(writer, nth)
			require.False(t, seen[n], n)
			seen[n] = true
			require.Equal(t, writer, n%1000%bench.Writers)
		}
	}
	require.Equal(t, 1000, aggregates)
	require.Len(t, seen, 2000)
	for n := range 2000 {
		require.True(t, seen[n], n)
	}
}

func TestABacklogThatGrowsIsNotFlat(t *testing.T) {
	var level, growing, falling, slow []float64
	for n := range 60 {
		level = append(level, float64(100+n%7))
		growing = append(growing, float64(n*100))
		falling = append(falling, float64(6000-n*100))
		slow = append(slow, 100)
	}
	slow[30] = 5000 // a checkpoint, say
	require.True(t, bench.Flat(level, 1000))
	require.False(t, bench.Flat(growing, 1000))
	require.True(t, bench.Flat(falling, 1000))
	require.True(t, bench.Flat(slow, 1000))
	require.True(t, bench.Flat([]float64{5}, 1000))
}
