package cli_test

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

var update = flag.Bool("update", false, "write the golden files")

// doctorFixture is a migrated database and a topic.
func doctorFixture(t *testing.T) (dsn, topic string, do func(code int, environment []string, args ...string) result) {
	t.Helper()
	_, dsn = testkit.MigratedDatabase(t)
	topic = testkit.Topic(t, 2)
	return dsn, topic, func(code int, environment []string, args ...string) result {
		t.Helper()
		environment = append([]string{"MILLRACE_DATABASE_URL=" + dsn, "MILLRACE_KAFKA_BROKERS=" + strings.Join(testkit.Kafka(t), ",")}, environment...)
		done := run(t, command(t, millrace, environment, append([]string{"doctor"}, args...)...))
		require.Equal(t, code, done.code, "%s\n%s", done.stdout, done.stderr)
		require.NotContains(t, done.stdout+done.stderr, "example-password")
		return done
	}
}

type doctorDocument struct {
	OK                        bool
	Warnings, Failed, Skipped int
	Checks                    []struct{ Name, Status, Detail string }
}

func (d doctorDocument) status(name string) string {
	for _, c := range d.Checks {
		if c.Name == name {
			return c.Status
		}
	}
	return ""
}

func TestDoctorKeepsNamesAndStatuses(t *testing.T) {
	_, topic, do := doctorFixture(t)
	done := do(0, nil, "--json", "--topic", topic)
	require.ElementsMatch(t, append(under("checks[].", "detail", "name", "status"), "failed", "ok", "skipped", "warnings"), done.names(t))
	var document doctorDocument
	done.document(t, &document)
	require.True(t, document.OK)
	var lines strings.Builder
	for _, c := range document.Checks {
		name, status := strings.TrimSuffix(c.Name, topic), c.Status
		if name == "broker.auto_create_topics" {
			status = "..." // only a real broker tells
		}
		fmt.Fprintf(&lines, "%s %s\n", name, status)
		require.NotEmpty(t, c.Detail, c.Name)
	}
	const golden = "testdata/doctor.golden"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(lines.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), lines.String())

	table := do(0, nil, "--topic", topic).stdout
	require.Contains(t, table, "schema.version")
	require.Contains(t, table, "failed: 0")
	require.Equal(t, 1, strings.Count(do(0, nil, "-o", "jsonl").stdout, "\n"))
}

func TestDoctorExitsWithThreeWhenACheckFailed(t *testing.T) {
	_, _, do := doctorFixture(t)
	failed := do(3, nil, "--json", "--topic", "absent.topic")
	var document doctorDocument
	failed.document(t, &document)
	require.False(t, document.OK)
	require.Equal(t, 1, document.Failed)
	require.Contains(t, failed.stderr, "failed: 1 of")
	do(3, []string{"MILLRACE_SCHEMA=other"}) // not migrated
}

func TestDoctorExitsWithSevenWhenAServiceIsAwayAndChecksTheOther(t *testing.T) {
	dsn, topic, do := doctorFixture(t)
	away := readdressed(t, dsn, func(u *url.URL) { u.Host = "127.0.0.1:1" })
	var document doctorDocument
	do(7, []string{"MILLRACE_DATABASE_URL=" + away}, "--json", "--topic", topic).document(t, &document)
	require.Equal(t, "failed", document.status("postgres.reachable"))
	require.Equal(t, "skipped", document.status("schema.version"))
	require.Equal(t, "ok", document.status("topic.exists:"+topic))

	do(7, []string{"MILLRACE_KAFKA_BROKERS=127.0.0.1:1"}, "--json", "--topic", topic).document(t, &document)
	require.Equal(t, "failed", document.status("kafka.reachable"))
	require.Equal(t, "ok", document.status("schema.version"))
	require.Equal(t, "skipped", document.status("topic"))
}

func TestDoctorRefusesWhatItDoesNotUnderstand(t *testing.T) {
	dsn, _, do := doctorFixture(t)
	do(2, nil, "--for", "everything")
	do(2, nil, "--topic", "no/topic")
	do(2, nil, "--long-transaction", "-1s")
	do(2, nil, "unexpected")
	do(2, []string{"MILLRACE_DATABASE_URL="})
	stranger := readdressed(t, dsn, func(u *url.URL) { u.User = url.UserPassword("absent", "example-password") })
	do(2, []string{"MILLRACE_DATABASE_URL=" + stranger})
}
