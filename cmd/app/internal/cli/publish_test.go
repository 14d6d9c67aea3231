package cli_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
)

type published struct {
	Read, Written, Duplicates, Skipped int
}

// A loader that dies at any moment and is started again on the same file.
func TestPublishKilledAtAnyMomentWritesEachEventOnce(t *testing.T) {
	const lines, kills = 3000, 8
	db, dsn := testkit.MigratedDatabase(t)
	var content strings.Builder
	for n := range lines {
		fmt.Fprintf(&content, "{\"event_type\":\"x\",\"payload\":{\"n\":%d}}\n", n)
	}
	file := filepath.Join(t.TempDir(), "events.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(content.String()), 0o600))
	publish := []string{"publish", "--topic", "orders", "--from", file, "--batch", "20", "--json"}
	environment := []string{"MILLRACE_DATABASE_URL=" + dsn}
	rows := func() (n int) {
		require.NoError(t, db.QueryRowContext(t.Context(), "select count(*) from millrace.outbox").Scan(&n))
		return n
	}

	inTheMiddle := 0
	for range kills {
		cmd := command(t, millrace, environment, publish...)
		require.NoError(t, cmd.Start())
		before := rows()
		if before < lines {
			// Not before it works, or nothing would be in the middle of anything.
			require.Eventually(t, func() bool { return rows() > before }, 20*time.Second, time.Millisecond)
		}
		<-time.After(time.Duration(rand.IntN(40)) * time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if n := rows(); n > 0 && n < lines {
			inTheMiddle++
		}
	}
	require.Positive(t, inTheMiddle, "no kill hit it at work")
	last := run(t, command(t, millrace, environment, publish...))
	require.Zero(t, last.code, last.stderr)
	var report published
	last.document(t, &report)
	require.Equal(t, lines, report.Read)
	require.Equal(t, lines, report.Written+report.Duplicates)
	require.Equal(t, lines, rows())
	var distinct int
	require.NoError(t, db.QueryRowContext(t.Context(),
		"select count(distinct convert_from(payload, 'UTF8')) from millrace.outbox").Scan(&distinct))
	require.Equal(t, lines, distinct)
}

func TestPublishKeepsThePayloadsBytes(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	payloads := []string{`{"b": 1,  "a":2 }`, `12345678901234567890.10`, `"<ü\u00fc>"`, `[ ]`, `false`, `""`}
	var content strings.Builder
	for n, payload := range payloads {
		fmt.Fprintf(&content, "{\"event_id\":\"%d\",\"payload\":%s}\n", n, payload)
	}
	content.WriteString(`{"event_id":"tombstone","payload":null}`)
	cmd := command(t, millrace, []string{"MILLRACE_DATABASE_URL=" + dsn}, "publish", "--topic", "orders")
	cmd.Stdin = strings.NewReader(content.String())
	done := run(t, cmd)
	require.Zero(t, done.code, done.stderr)
	for n, payload := range payloads {
		var got []byte
		require.NoError(t, db.QueryRowContext(t.Context(), "select payload from millrace.outbox where event_id = $1", fmt.Sprint(n)).Scan(&got))
		require.Equal(t, payload, string(got))
		require.True(t, json.Valid(got))
	}
	var tombstone []byte
	require.NoError(t, db.QueryRowContext(t.Context(), "select payload from millrace.outbox where event_id = 'tombstone'").Scan(&tombstone))
	require.Nil(t, tombstone)
}
