package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/examples/orders"
	"github.com/millrace-go/millrace/internal/testkit"
)

type demoReport struct {
	OK                 bool     `json:"ok"`
	Orders             int      `json:"orders"`
	RolledBack         int      `json:"rolled_back"`
	EventsCommitted    int      `json:"events_committed"`
	Published          int      `json:"published"`
	WireDuplicates     int      `json:"wire_duplicates"`
	Effects            int      `json:"effects"`
	DuplicatesAbsorbed int      `json:"duplicates_absorbed"`
	Retries            int      `json:"retries"`
	DeadLettered       int      `json:"dead_lettered"`
	Replayed           int      `json:"replayed"`
	Lost               int      `json:"lost"`
	Violations         []string `json:"violations"`
}

// demoFields are a contract.
var demoFields = []string{
	"dead_lettered", "duplicated_effects", "duplicates_absorbed", "effects", "events_committed", "lost", "ok", "orders",
	"published", "relays_killed", "reordered", "replayed", "retries", "rolled_back", "seconds", "services", "services.kafka",
	"services.postgres", "unexpected", "violations", "wire_duplicates", "wrong_balances",
}

func demo(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	environment := append(kafkaEnvironment(t), "MILLRACE_DATABASE_URL="+testkit.DSN(t))
	return command(t, name, environment, append([]string{"demo", "--json", "--orders", "60", "--state-dir", t.TempDir()}, args...)...)
}

func TestDemo(t *testing.T) {
	done := run(t, demo(t, millrace))
	require.Zero(t, done.code, "%s\n%s", done.stdout, done.stderr)
	require.Equal(t, demoFields, done.names(t))
	var report demoReport
	done.document(t, &report)
	require.True(t, report.OK)
	require.Equal(t, 60, report.Orders)
	require.Equal(t, report.EventsCommitted, report.Published)
	require.Equal(t, report.EventsCommitted, report.Effects)
	require.Equal(t, report.WireDuplicates, report.DuplicatesAbsorbed)
	for _, n := range []int{report.RolledBack, report.WireDuplicates, report.Retries} {
		require.Positive(t, n)
	}
	require.Equal(t, 1, report.DeadLettered)
	require.Equal(t, 1, report.Replayed)
	require.Contains(t, done.stderr, "was killed")
}

// The order service's consumers may exist in earnest on a cluster that was given.
func TestDemoLeavesOtherConsumerGroupsAlone(t *testing.T) {
	client, err := kgo.NewClient(kgo.SeedBrokers(testkit.Kafka(t)...))
	require.NoError(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	topic := testkit.Topic(t, 1)
	names := []string{orders.ProjectionConsumer, orders.NotificationConsumer}
	for _, group := range names {
		offsets := kadm.Offsets{}
		offsets.AddOffset(topic, 0, 0, -1)
		require.NoError(t, admin.CommitAllOffsets(t.Context(), group, offsets))
	}
	done := run(t, demo(t, millrace, "--chaos=false", "--orders", "10", "--relays", "1"))
	require.Zero(t, done.code, "%s\n%s", done.stdout, done.stderr)
	groups, err := admin.ListGroups(t.Context())
	require.NoError(t, err)
	require.Subset(t, groups.Groups(), names)
	for _, group := range groups.Groups() {
		require.NotContains(t, group, "millrace-demo.")
	}
}

func TestDemoWithoutChaos(t *testing.T) {
	done := run(t, demo(t, millrace, "--chaos=false", "--relays", "1"))
	require.Zero(t, done.code, "%s\n%s", done.stdout, done.stderr)
	var report demoReport
	done.document(t, &report)
	require.True(t, report.OK)
	require.Zero(t, report.Retries+report.DeadLettered+report.WireDuplicates)
	require.Positive(t, report.RolledBack)
}

// The judgement must not be able to overlook a loss.
func TestDemoIsNotOKWhenARecordIsMissing(t *testing.T) {
	done := run(t, demo(t, millraceWithoutOneRecord))
	require.Equal(t, 3, done.code, "%s\n%s", done.stdout, done.stderr)
	var report demoReport
	done.document(t, &report)
	require.False(t, report.OK)
	require.Equal(t, 1, report.Lost)
	require.NotEmpty(t, report.Violations)
}

// What a demo keeps can be looked at with every command, on services they start for the time being.
func TestCommandsWorkOnWhatADemoKept(t *testing.T) {
	dir := testkit.StateDir(t)
	inDir := func(code int, args ...string) result {
		t.Helper()
		done := run(t, command(t, millrace, nil, append(args, "--state-dir", dir)...))
		require.Equal(t, code, done.code, "%s\n%s", done.stdout, done.stderr)
		return done
	}
	kept := inDir(0, "demo", "--orders", "30", "--keep")
	require.Contains(t, kept.stdout, "events committed")
	require.NotContains(t, kept.stdout, "\x1b[", "no colours where no person looks")
	require.Contains(t, kept.stderr, "PostgreSQL: ")
	require.Contains(t, kept.stderr, "Kafka: ")
	inDir(0, "migrate", "status")
	require.NotEmpty(t, inDir(0, "consume", "--topic", "orders", "--max", "30").stdout)
	letters := inDir(0, "consume", "--topic", "orders.dlq", "--max", "1").stdout
	_, rest, found := strings.Cut(letters, `"original_event_id":"`)
	require.True(t, found, letters)
	id, _, _ := strings.Cut(rest, `"`)
	require.Contains(t, inDir(0, "dlq", "show", id).stdout, "done")
	inDir(6, "dlq", "replay", id, "--reason", "again")
	// Several commands at once use the same services.
	relay := command(t, millrace, nil, "run", "--state-dir", dir, "--listen", "127.0.0.1:0")
	require.NoError(t, relay.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "running-kafka-embedded.json"))
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	line := filepath.Join(t.TempDir(), "line")
	require.NoError(t, os.WriteFile(line, []byte(`{"event_id":"beside","payload":1}`), 0o600))
	inDir(0, "publish", "--topic", "orders", "--from", line)
	require.Eventually(t, func() bool {
		return strings.Contains(inDir(0, "consume", "--topic", "orders", "--timeout", "200ms").stdout, "beside")
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, relay.Process.Signal(syscall.SIGTERM))
	require.NoError(t, relay.Wait())

	// The next one begins anew, and leaves nothing.
	inDir(0, "demo", "--orders", "30")
	require.Contains(t, inDir(0, "migrate", "status").stdout, "4 pending")
}
