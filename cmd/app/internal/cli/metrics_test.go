package cli_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/cmd/app/internal/cli"
	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/metrics"
	"github.com/millrace-go/millrace/outbox"
)

var (
	documentedMetric = regexp.MustCompile("(?m)^\\| `(millrace_[a-z_]+)` \\| (\\w+) \\|([^|]*)\\|")
	alertName        = regexp.MustCompile(`(?m)^ *- alert: (\w+)$`)
	metricName       = regexp.MustCompile(`millrace_[a-z_]+`)
)

// exported are the metrics as they are shown, each with its type and labels.
func exported(t *testing.T) (rows []string) {
	t.Helper()
	db := testkit.Migrated(t)
	_, err := db.ExecContext(t.Context(), `insert into millrace.outbox_lane (shard, topic, frontier_snapshot, frontier_position, held, reason)
		values (0, 'orders', '1:1:', 0, true, 'paused')`)
	require.NoError(t, err)
	ofOutbox, err := metrics.NewOutboxCollector(db, metrics.OutboxConfig{Timeout: time.Minute})
	require.NoError(t, err)
	subscriber, err := outbox.NewSubscriber(db, outbox.SubscriberConfig{DirectURL: "postgres://localhost"}, nil)
	require.NoError(t, err)
	consumers := metrics.NewConsumerCollector()
	msg := message.NewMessage("a", nil)
	msg.SetContext(event.ContextWithDelivery(t.Context(), event.Delivery{Timestamp: time.Now()}))
	consumers.Applied("c", msg)
	consumers.Duplicate("c", msg)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(ofOutbox, metrics.NewRelayCollector(subscriber.Stats), consumers,
		cli.NewBrokerMetrics(func(context.Context) error { return nil }))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		slices.Sort(labels)
		rows = append(rows, strings.Join([]string{f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", ")}, " "))
	}
	return rows
}

func file(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile("../../../../" + path)
	require.NoError(t, err)
	return string(content)
}

func TestMetricsAreThoseThatAreDocumented(t *testing.T) {
	var documented []string
	for _, row := range documentedMetric.FindAllStringSubmatch(file(t, "docs/metrics.md"), -1) {
		labels := strings.Split(strings.TrimSpace(row[3]), ", ")
		slices.Sort(labels)
		documented = append(documented, strings.Join([]string{row[1], row[2], strings.Join(labels, ", ")}, " "))
	}
	require.ElementsMatch(t, exported(t), documented)
}

// An alert on a metric that nobody exports never rings, and one without a page helps nobody at night.
func TestAlertsUseExportedMetricsAndHaveARunbook(t *testing.T) {
	rules, runbook := file(t, "deploy/prometheus/millrace.rules.yml"), file(t, "docs/operations.md")
	var names []string
	for _, row := range exported(t) {
		names = append(names, strings.Fields(row)[0])
	}
	for _, used := range metricName.FindAllString(rules, -1) {
		name := used
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		require.True(t, slices.Contains(names, used) || slices.Contains(names, name), used)
	}
	alerts := alertName.FindAllStringSubmatch(rules, -1)
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		require.Contains(t, rules, "operations.md#"+strings.ToLower(alert[1]), "the alert's link")
		require.Contains(t, runbook, "\n### "+alert[1]+"\n")
	}
	require.Len(t, regexp.MustCompile(`(?m)^### Millrace\w+$`).FindAllString(runbook, -1), len(alerts))
}
