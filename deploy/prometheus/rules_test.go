package prometheus_test

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"
)

const (
	interval = 15 * time.Second
	healthy  = `
millrace_relay_alive{job="relay",instance="a"} 1x600
millrace_relay_registered{job="relay",instance="a"} 1x600
millrace_relay_shards{job="relay",instance="a"} 64x600
millrace_relay_sweeps_total{job="relay",instance="a"} 1+0.25x600
millrace_relay_swept_total{job="relay",instance="a"} 0x600
millrace_relay_takeovers_total{job="relay",instance="a"} 64x600
millrace_relay_fenced_total{job="relay",instance="a"} 0x600
millrace_relay_publish_attempts_total{job="relay",instance="a"} 0+1500x600
millrace_relay_unknown_outcomes_total{job="relay",instance="a"} 0+3x600
millrace_relay_wake_up_connected{job="relay",instance="a"} 1x600
millrace_relay_clock_offset_seconds{job="relay",instance="a"} -0.2x600
millrace_database_up{job="relay",instance="a"} 1x600
millrace_kafka_up{job="relay",instance="a"} 1x600
millrace_outbox_pending{job="relay",instance="a"} 2000-1x600
millrace_outbox_oldest_pending_seconds{job="relay",instance="a"} 20x600
millrace_outbox_parked{job="relay",instance="a",state="quarantined"} 0x600
millrace_outbox_parked{job="relay",instance="a",state="retrying"} 7x600
millrace_outbox_live_relays{job="relay",instance="a"} 1x600
millrace_outbox_shards{job="relay",instance="a"} 64x600
millrace_outbox_unowned_shards{job="relay",instance="a"} 0x600
millrace_outbox_takeovers_without_progress{job="relay",instance="a"} 1x600
millrace_outbox_topic_held_seconds{job="relay",instance="a",topic="orders",reason="paused"} 0+15x600
`
)

// minutes are so many evaluations.
func minutes(n int) int { return n * int(time.Minute/interval) }

// firing says at which minute each alert first fires, within so many minutes, when these series replace the healthy ones of
// the same name and labels.
func firing(t *testing.T, within int, series ...string) map[string]int {
	t.Helper()
	replaced := map[string]bool{}
	var load strings.Builder
	load.WriteString("load 15s\n")
	for _, line := range series {
		replaced[strings.SplitN(line, " ", 2)[0]] = true
		load.WriteString("  " + line + "\n")
	}
	for line := range strings.Lines(healthy) {
		if line = strings.TrimSpace(line); line != "" && !replaced[strings.SplitN(line, " ", 2)[0]] {
			load.WriteString("  " + line + "\n")
		}
	}
	storage := promqltest.LoadedStorage(t, load.String())
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
	query := rules.EngineQueryFunc(engine, storage)
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: query, Queryable: storage, Logger: slog.New(slog.DiscardHandler), Parser: parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, "millrace.rules.yml")
	require.Empty(t, errs)
	first := map[string]int{}
	for step := range minutes(within) + 1 {
		for _, group := range groups {
			for _, rule := range group.Rules() {
				alert := rule.(*rules.AlertingRule)
				at := time.Unix(0, 0).Add(time.Duration(step) * interval)
				_, err := alert.Eval(context.Background(), 0, at, query, &url.URL{}, 0)
				require.NoError(t, err)
				alert.SetEvaluationTimestamp(at)
				if _, fires := first[alert.Name()]; !fires && alert.State() == rules.StateFiring {
					first[alert.Name()] = step / minutes(1)
					for _, active := range alert.ActiveAlerts() {
						require.NotContains(t, active.Annotations.Get("summary"), "error")
						require.NotContains(t, active.Annotations.Get("summary"), "no value")
						require.Contains(t, []string{"page", "ticket"}, active.Labels.Get("severity"))
					}
				}
			}
		}
	}
	return first
}

func of(metric, values string, more ...string) string {
	return "millrace_" + metric + `{job="relay",instance="a"` + strings.Join(more, "") + "} " + values
}

func TestNothingRingsWhileAllIsWell(t *testing.T) {
	require.Empty(t, firing(t, 140))
}

func TestEachAlertRingsForItsTroubleAndForNothingElse(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range []struct {
		alert  string
		minute int // of the first ring, the trouble beginning at minute 10
		series []string
	}{
		{"MillraceBacklogOld", 15, []string{of("outbox_oldest_pending_seconds", "20x39 400x300")}},
		{"MillraceBacklogGrowing", 40, []string{of("outbox_pending", "0x39 1500+50x300")}},
		{"MillraceEventsQuarantined", 11, []string{of("outbox_parked", "0x39 2x300", `,state="quarantined"`)}},
		{"MillraceTopicHeld", 16, []string{of("outbox_topic_held_seconds", "_x39 0+15x300", `,topic="mails",reason="unavailable"`)}},
		{"MillraceTopicHeld", 16, []string{of("outbox_topic_held_seconds", "_x39 0+15x300", `,topic="mails",reason="stalled"`)}},
		{"MillraceTopicPausedLong", 11, []string{of("outbox_topic_held_seconds", "0x39 86500x300", `,topic="orders",reason="paused"`)}},
		{"MillraceNoLiveRelay", 12, []string{of("outbox_live_relays", "1x39 0x300")}},
		{"MillraceShardsUnowned", 12, []string{of("outbox_unowned_shards", "0x39 3x300")}},
		{"MillraceRelayStuck", 11, []string{of("relay_alive", "1x39 0x300")}},
		{"MillraceTakeoversFlapping", 14, []string{of("relay_takeovers_total", "64x39 64+16x300")}},
		{"MillraceTakeoversFlapping", 11, []string{of("outbox_takeovers_without_progress", "1x39 3x300")}},
		{"MillraceWritesFenced", 10, []string{of("relay_fenced_total", "0x39 5x300")}},
		{"MillraceSweepFoundEvents", 10, []string{of("relay_swept_total", "0x39 1x300")}},
		{"MillraceSweepFoundEvents", 10, []string{of("relay_swept_total", "0x300"), `millrace_relay_swept_total{job="relay",instance="b"} _x39 1x200`}},
		{"MillraceSweepsMissing", 69, []string{of("relay_sweeps_total", "1+0.25x39 11x400")}},
		{"MillraceUnknownOutcomes", 15, []string{of("relay_unknown_outcomes_total", "0x39 0+300x300")}},
		{"MillraceDatabaseUnreachable", 12, []string{of("database_up", "1x39 0x300")}},
		{"MillraceKafkaUnreachable", 12, []string{of("kafka_up", "1x39 0x300")}},
		{"MillraceWakeUpLost", 15, []string{of("relay_wake_up_connected", "1x39 0x300")}},
		{"MillraceClockWrong", 15, []string{of("relay_clock_offset_seconds", "0x39 -6x300")}},
		{"MillraceClockWrong", 15, []string{of("relay_clock_offset_seconds", "0x39 6x300")}},
	} {
		tested[c.alert] = true
		got := firing(t, 75, c.series...)
		require.Contains(t, got, c.alert)
		require.InDelta(t, c.minute, got[c.alert], 1, c.alert)
		require.Len(t, got, 1, c.alert)
	}
	for _, name := range names(t) {
		require.True(t, tested[name], "no test for %s", name)
	}
}

// With the last relay its metrics go.
func TestNoRelayAtAllRings(t *testing.T) {
	var gone []string
	for line := range strings.Lines(healthy) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			gone = append(gone, name+" 1x39")
		}
	}
	got := firing(t, 30, gone...)
	require.Equal(t, 16, got["MillraceNoLiveRelay"]) // 5 minutes after the last sample, and 2
}

// A single slow second, a deploy, a paused topic: none of them is a reason to get up.
func TestBriefTroubleRingsForNobody(t *testing.T) {
	for _, line := range []string{
		of("outbox_oldest_pending_seconds", "20x39 400x8 20x300"), of("outbox_unowned_shards", "0x39 64x6 0x300"),
		of("database_up", "1x39 0x6 1x300"), of("kafka_up", "1x39 0x6 1x300"), of("relay_wake_up_connected", "1x39 0x16 1x300"),
		of("relay_takeovers_total", "0x39 64x300"), of("outbox_pending", "0x39 50000+10x20 0x300"),
	} {
		require.Empty(t, firing(t, 60, line), line)
	}
}

func names(t *testing.T) (names []string) {
	t.Helper()
	manager := rules.NewManager(&rules.ManagerOptions{Logger: slog.New(slog.DiscardHandler), Parser: parser.NewParser(parser.Options{})})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, "millrace.rules.yml")
	require.Empty(t, errs)
	for _, group := range groups {
		for _, rule := range group.Rules() {
			names = append(names, rule.Name())
		}
	}
	return names
}
