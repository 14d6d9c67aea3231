package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func records(numbers ...int) (all []*kgo.Record) {
	for _, n := range numbers {
		all = append(all, &kgo.Record{Value: payload(n), Timestamp: time.UnixMilli(int64(1000 * len(all)))})
	}
	return all
}

func count(events int, all []*kgo.Record) *tally {
	t := newTally(events)
	for _, r := range all {
		t.add(r)
	}
	return t
}

func TestLostDuplicatedAndReorderedAreCountedFromTheRecords(t *testing.T) {
	second := aggregates // the second event of the first aggregate
	for _, c := range []struct {
		numbers                     []int
		lost, duplicated, reordered int
	}{
		{[]int{0, 1, second, second + 1}, 0, 0, 0},
		{[]int{1, second + 1, 0, second}, 0, 0, 0},
		{[]int{0, 1, second, 1, second + 1, 0}, 0, 2, 0},
		{[]int{second, 0, 1, second + 1}, 0, 0, 1},
		{[]int{0, 1}, 2, 0, 0},
	} {
		events := second + 2
		counted := count(events, records(c.numbers...))
		lost := counted.lost() - (events - 4)
		require.Equal(t, [3]int{c.lost, c.duplicated, c.reordered}, [3]int{lost, counted.duplicated, counted.reordered}, "%v", c.numbers)
	}
}

func TestWhatWasNotWrittenStandsForNoEvent(t *testing.T) {
	all := records(0, 1, 2)
	all[0].Value = all[0].Value[1:]
	all[1].Value = []byte(`{"event": 1}`)
	require.Equal(t, 2, count(3, all).lost())
	require.Equal(t, 2, count(2, records(2, 3)).lost())
}

func TestAnAggregateOnTwoPartitionsHasNoOrder(t *testing.T) {
	all := records(0, aggregates)
	all[1].Partition = 1
	require.Equal(t, 1, count(aggregates+1, all).reordered)
}

func TestTheRateLeavesOutTheFirstAppendAndCopies(t *testing.T) {
	all := records(0, 1, 2, 2)
	seconds, perSecond := count(3, all).rate()
	require.InDelta(t, 3.0, seconds, 1e-9)
	require.InDelta(t, 2.0/3, perSecond, 1e-9)
	seconds, perSecond = count(3, all[:1]).rate()
	require.Zero(t, seconds)
	require.Zero(t, perSecond)
}

func TestEventsAreJSONOf300BytesInTheSpellingOfJSONB(t *testing.T) {
	for _, n := range []int{0, 999, 9_999_999} {
		p := payload(n)
		require.Len(t, p, payloadBytes)
		require.True(t, json.Valid(p))
		got, ok := number(p)
		require.True(t, ok)
		require.Equal(t, n, got)
	}
}
