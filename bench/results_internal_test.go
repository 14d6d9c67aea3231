package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.Zero(t, median(nil))
	require.InDelta(t, 5, median([]float64{5}), 1e-9)
	require.InDelta(t, 2, median([]float64{9, 1, 2}), 1e-9)
	require.InDelta(t, 2.5, median([]float64{9, 1, 3, 2}), 1e-9)
}

func TestRatiosAreTakenWithinATurn(t *testing.T) {
	// The machine is ten times as fast in the second turn: the ratios stay.
	ours := []figures{{EventsPerSecond: 50, LimitPerSecond: 100, RSSMiB: 3}, {EventsPerSecond: 500, LimitPerSecond: 1000, RSSMiB: 9}}
	theirs := []figures{{EventsPerSecond: 5, LimitPerSecond: 100, Duplicated: 1}, {EventsPerSecond: 50, LimitPerSecond: 1000, Duplicated: 2}}
	r := results{
		Limits:  []limit{{1, 100}, {2, 1000}},
		Results: []result{newResult(nameStock, "slow", 10, theirs), newResult(nameMillrace, "fast", 10, ours)},
	}
	r.relate()
	require.InDelta(t, 550, r.Limit, 1e-9)
	require.InDelta(t, 0.05, r.Results[0].LimitRatio, 1e-9)
	require.InDelta(t, 10, r.Results[0].MillraceRatio, 1e-9)
	require.InDelta(t, 1, r.Results[1].MillraceRatio, 1e-9)
	require.Equal(t, 3, r.Results[0].Duplicated)
	require.InDelta(t, 9, r.Results[1].RSSMiB, 1e-9)
	require.False(t, r.trouble())

	var table strings.Builder
	r.show(&table)
	require.Contains(t, table.String(), "10.0 x")
	r.Results[0].Lost = 1
	require.True(t, r.trouble())
}

func TestNothingToCompareWithIsNoRatio(t *testing.T) {
	r := results{Results: []result{newResult(nameStock, "", 1, []figures{{EventsPerSecond: 5}})}}
	r.relate()
	require.Zero(t, r.Results[0].LimitRatio)
	require.Zero(t, r.Results[0].MillraceRatio)
}

func TestOptionsThatCanNotWorkAreRefused(t *testing.T) {
	for _, args := range []string{
		"--events 0", "--stock-events 0", "--runs 0", "--timeout 0s", "--contenders nobody", "--contenders millrace,millrace",
		"--embedded-kafka", "surplus",
	} {
		_, err := parse(strings.Fields(args))
		require.Error(t, err, args)
	}
	o, err := parse(strings.Fields("--events 5 --contenders millrace,debezium"))
	require.NoError(t, err)
	require.Equal(t, []string{nameMillrace, nameDebezium}, o.contenders)
}
