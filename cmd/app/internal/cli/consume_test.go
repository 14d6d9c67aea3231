package cli_test

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/internal/testkit"
)

func produce(t *testing.T, records ...*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(testkit.Kafka(t)...))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(), records...).FirstErr())
}

func kafkaEnvironment(t *testing.T) []string {
	t.Helper()
	return []string{"MILLRACE_KAFKA_BROKERS=" + strings.Join(testkit.Kafka(t), ",")}
}

func TestConsumeShowsRecordsAsTheyAre(t *testing.T) {
	topic := testkit.Topic(t, 1)
	produce(t,
		&kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("{\n \"n\": 12345678901234567890,\n \"h\": \"<a>\"\n}"), Headers: []kgo.RecordHeader{
			{Key: "event_id", Value: []byte("e-1")}, {Key: "raw", Value: []byte{0xff}}, {Key: "none"},
		}},
		&kgo.Record{Topic: topic, Value: []byte{0, 0xff}},
		&kgo.Record{Topic: topic, Key: []byte{}, Value: nil},
		&kgo.Record{Topic: topic, Value: []byte("null")},
		&kgo.Record{Topic: topic, Value: []byte{}},
	)
	done := run(t, command(t, millrace, kafkaEnvironment(t), "consume", "--topic", topic, "--max", "5"))
	require.Zero(t, done.code, done.stderr)
	lines := strings.Split(strings.TrimSpace(done.stdout), "\n")
	require.Len(t, lines, 5)
	var first map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.Equal(t, map[string]any{"event_id": "e-1", "raw": map[string]any{"base64": "/w=="}, "none": nil}, first["headers"])
	require.Equal(t, "k", first["key"])
	require.Equal(t, "e-1", first["event_id"])
	require.Contains(t, lines[0], `"payload":{"n":12345678901234567890,"h":"<a>"}`)
	require.Contains(t, lines[1], `"payload":null,"payload_base64":"AP8="`)
	require.Contains(t, lines[1], `"key":null`)
	require.Contains(t, lines[2], `"payload":null,"tombstone":true`)
	require.Contains(t, lines[2], `"key":""`)
	require.True(t, strings.HasSuffix(lines[3], `"payload":null}`), "JSON's null is no tombstone: %s", lines[3])
	require.NotContains(t, lines[4], "tombstone")
}

func TestConsumeSaysWhenItCouldNotReadAsManyAsAsked(t *testing.T) {
	topic := testkit.Topic(t, 2)
	produce(t, &kgo.Record{Topic: topic, Value: []byte("1")})
	few := run(t, command(t, millrace, kafkaEnvironment(t), "consume", "--topic", topic, "--max", "2", "--timeout", "300ms"))
	require.Equal(t, 4, few.code, few.stderr)
	require.Equal(t, 1, strings.Count(few.stdout, "\n"))
	all := run(t, command(t, millrace, kafkaEnvironment(t), "consume", "--topic", topic, "--timeout", "300ms"))
	require.Zero(t, all.code, all.stderr)
	none := run(t, command(t, millrace, kafkaEnvironment(t), "consume", "--topic", topic, "--from", "newest", "--timeout", "300ms"))
	require.Zero(t, none.code, none.stderr)
	require.Empty(t, none.stdout)
	absent := run(t, command(t, millrace, kafkaEnvironment(t), "consume", "--topic", topic+"-absent"))
	require.Equal(t, 5, absent.code, absent.stderr)
}

func TestAnInterruptSaysSo(t *testing.T) {
	topic := testkit.Topic(t, 1)
	produce(t, &kgo.Record{Topic: topic, Value: []byte("1")})
	output, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer func() { require.NoError(t, output.Close()) }()
	var stderr strings.Builder
	cmd := command(t, millrace, kafkaEnvironment(t), "consume", "--topic", topic)
	cmd.Stdout, cmd.Stderr = output, &stderr
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		info, err := output.Stat()
		return err == nil && info.Size() > 0
	}, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
	require.Contains(t, stderr.String(), "interrupted")
}
