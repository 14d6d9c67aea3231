package cli_test

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/metrics"
	"github.com/millrace-go/millrace/outbox"
)

// outboxFixture is an outbox with events of one key: a head that is quarantined, two behind it, one pending and one sent.
func outboxFixture(t *testing.T) (db *sql.DB, millraceDo func(code int, args ...string) result) {
	t.Helper()
	db, dsn := testkit.MigratedDatabase(t)
	require.NoError(t, outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
		publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
		if err != nil {
			return err
		}
		for n, id := range []string{"head", "second", "third", "pending", "sent"} {
			msg := event.New("x", []byte(`{"secret":1}`), event.WithID(id), event.Aggregate("order", "a/1", int64(n+1)), event.Meta("colour", "red"))
			if err := publisher.Publish("orders", msg); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, statement := range []string{
		`insert into millrace.outbox_parked (shard, position, event_id, topic, partition_key, aggregate_type, aggregate_id, state, blocks, attempts, stage, error_class, first_error, last_error)
		 select shard, position, event_id, topic, partition_key, aggregate_type, aggregate_id, case event_id when 'head' then 'quarantined' else 'blocked' end, true, 4,
		        'publish', 'permanent', 'first', 'last' from millrace.outbox where event_id in ('head', 'second', 'third') order by position`,
		`insert into millrace.outbox_receipt (shard, position, kafka_partition, kafka_offset, attempts, claim_version)
		 select shard, position, 0, 9, 1, 1 from millrace.outbox where event_id = 'sent'`,
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	return db, func(code int, args ...string) result {
		t.Helper()
		done := run(t, command(t, millrace, []string{"MILLRACE_DATABASE_URL=" + dsn}, args...))
		require.Equal(t, code, done.code, "%s\n%s", done.stdout, done.stderr)
		return done
	}
}

func parkedState(t *testing.T, db *sql.DB, id string) (state string) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), "select state from millrace.outbox_parked where event_id = $1", id).Scan(&state))
	return state
}

// under puts a path in front of field names.
func under(path string, names ...string) []string {
	names = slices.Clone(names)
	for n := range names {
		names[n] = path + names[n]
	}
	return append([]string{strings.TrimRight(path, ".[]")}, names...)
}

var parkedFields = []string{
	"aggregate_id", "aggregate_type", "attempts", "blocks", "due_at", "entry", "error_class", "event_id", "first_error", "followers",
	"last_error", "owner", "parked_at", "partition_key", "paused", "position", "revision", "shard", "stage", "state", "topic", "updated_at",
}

func TestOutboxStatsAndRelayStatusKeepTheirFields(t *testing.T) {
	db, do := outboxFixture(t)
	_, err := db.ExecContext(t.Context(), `insert into millrace.outbox_lane (shard, topic, frontier_snapshot, frontier_position, held, reason, last_error)
		select shard, 'absent', '1:1:', 0, true, 'unavailable', 'no such topic' from millrace.outbox_shard`)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `insert into millrace.outbox_relay (relay_id, name, lease_ms, lease_until) values (gen_random_uuid(), 'r1', 10000, millrace.clock() + interval '1 h')`)
	require.NoError(t, err)
	do(0, "outbox", "pause", "--topic", "orders", "--reason", "why", "--actor", "ann")
	heldPaused := slices.Concat(
		under("held[].", "failures", "held", "last_error", "reason", "shards", "since", "topic"),
		under("paused[].", "actor", "paused_at", "reason", "topic"))

	stats := do(0, "outbox", "stats", "--json")
	require.ElementsMatch(t, slices.Concat(heldPaused, []string{
		"blocked", "claimed", "discarded", "oldest_pending_ms", "pending", "quarantined", "retrying", "scheduled", "sent",
	}, under("oldest_ms.", "blocked", "claimed", "discarded", "pending", "quarantined", "retrying", "scheduled")), stats.names(t))
	var counts struct {
		Pending, Claimed, Retrying, Blocked, Quarantined, Scheduled, Sent, Discarded int
	}
	stats.document(t, &counts)
	require.Equal(t, []int{1, 0, 0, 2, 1, 0, 1, 0}, []int{
		counts.Pending, counts.Claimed, counts.Retrying, counts.Blocked, counts.Quarantined, counts.Scheduled, counts.Sent, counts.Discarded,
	})
	table := do(0, "outbox", "stats").stdout
	for _, text := range []string{"quarantined", "no such topic", "topic orders"} {
		require.Contains(t, table, text)
	}

	status := do(0, "relay", "status", "--json")
	require.ElementsMatch(t, slices.Concat(heldPaused,
		under("relays[].", "id", "lease_remaining_ms", "live", "name", "sent_per_second", "shards_owned", "started_at"),
		under("shards[].", "claim_version", "frontier_position", "lag", "lag_at_least", "last_error", "owner", "relay_id", "sent_per_second", "shard", "suspect_tries", "takeovers"),
	), status.names(t))
	require.Contains(t, do(0, "relay", "status").stdout, "r1")
	require.Equal(t, 1, strings.Count(do(0, "relay", "status", "-o", "jsonl").stdout, "\n"))
	do(2, "relay")
	do(2, "outbox", "stats", "unexpected")
}

func TestOutboxListPagesAndShowTellsEverythingButThePayload(t *testing.T) {
	db, do := outboxFixture(t)
	list := do(0, "outbox", "list", "--json", "--limit", "1")
	require.ElementsMatch(t, append(under("events[].", parkedFields...), "count", "next"), list.names(t))
	var page struct {
		Count  int
		Next   int64
		Events []struct {
			EventID  string `json:"event_id"`
			WaitsFor string `json:"waits_for"`
		}
	}
	list.document(t, &page)
	require.Equal(t, "head", page.Events[0].EventID)
	require.Positive(t, page.Next)
	do(0, "outbox", "list", "--json", "--state", "blocked", "--topic", "orders", "--aggregate", "order/a/1", "--error-class", "permanent", "--older-than", "1ms").document(t, &page)
	require.Equal(t, 2, page.Count)
	require.Zero(t, page.Next)
	require.Equal(t, "head", page.Events[0].WaitsFor)
	do(0, "outbox", "list", "--json", "--older-than", "1h").document(t, &page)
	require.Zero(t, page.Count)
	require.Equal(t, 3, strings.Count(do(0, "outbox", "list", "-o", "jsonl").stdout, "\n"))
	require.Contains(t, do(0, "outbox", "list").stdout, "2 wait for it")
	do(2, "outbox", "list", "--state", "sent")
	do(2, "outbox", "list", "--limit", "0")
	do(2, "outbox", "list", "--aggregate", "order")

	do(0, "outbox", "assign", "head", "--owner", "bob", "--actor", "ann", "--reason", "knows it")
	for _, args := range [][]string{{"--json"}, {}} {
		require.NotContains(t, do(0, append([]string{"outbox", "show", "head"}, args...)...).stdout, "secret")
	}
	event := []string{
		"aggregate_id", "aggregate_type", "aggregate_version", "created_at", "deliver_at", "event_id", "event_kind", "event_type", "event_version",
		"partition_key", "payload_bytes", "position", "shard", "state", "topic", "ahead", "behind",
	}
	metadata := under("metadata.", "aggregate_id", "aggregate_type", "aggregate_version", "colour", "event_id", "event_kind", "event_type", "event_version")
	show := do(0, "outbox", "show", "head", "--payload", "--json")
	require.ElementsMatch(t, slices.Concat(event, metadata, under("parked.", parkedFields...), []string{"receipt", "payload", "payload.secret"},
		under("audit[].", "action", "actor", "at", "reason"), under("audit[].detail.", "event_id", "state", "topic"),
		under("audit[].detail.differences[].", "after", "before", "field")), show.names(t))
	require.Contains(t, do(0, "outbox", "show", "head", "--payload").stdout, "secret")
	require.ElementsMatch(t, slices.Concat(event, metadata, []string{"audit", "parked"},
		under("receipt.", "attempts", "claim_version", "offset", "partition", "sent_at", "topic")), do(0, "outbox", "show", "sent", "--json").names(t))
	do(0, "outbox", "show", "pending")
	require.Contains(t, do(5, "outbox", "show", "unknown").stderr, "event unknown: no such event")
	require.Equal(t, "quarantined", parkedState(t, db, "head"))
}

func TestOutboxChangesAreAskedForAndAudited(t *testing.T) {
	db, do := outboxFixture(t)
	type report struct {
		Count, Failed, Skipped int
	}
	changed := func(r result) (c report) {
		r.document(t, &c)
		return c
	}
	dry := do(0, "outbox", "retry", "head", "--dry-run", "--json")
	require.ElementsMatch(t, slices.Concat([]string{"action", "count", "dry_run", "failed", "skipped"},
		under("events[].", "differences[].after", "differences[].before", "differences[].field", "differences", "error", "event_id", "state")), dry.names(t))
	require.Equal(t, report{Count: 1}, changed(dry))
	require.Equal(t, "quarantined", parkedState(t, db, "head"))
	do(0, "outbox", "retry", "head", "--reason", "mended", "--actor", "ann")
	require.Equal(t, "retrying", parkedState(t, db, "head"))
	var audit string
	require.NoError(t, db.QueryRowContext(t.Context(), "select concat_ws('/', actor, action, subject, reason) from millrace.audit").Scan(&audit))
	require.Equal(t, "ann/outbox.retry/head/mended", audit)

	require.Contains(t, do(6, "outbox", "retry", "second").stderr, "it waits for event head")
	do(6, "outbox", "retry", "second", "--dry-run")
	do(6, "outbox", "retry", "sent")
	do(6, "outbox", "skip", "pending")
	do(5, "outbox", "retry", "unknown")
	require.Equal(t, report{Count: 1, Failed: 2}, changed(do(4, "outbox", "retry", "head", "second", "unknown", "--json")))

	// Picked by flags they are counted first.
	do(2, "outbox", "discard")
	do(2, "outbox", "discard", "--yes")
	do(2, "outbox", "discard", "head", "--state", "retrying", "--yes")
	require.Contains(t, do(2, "outbox", "discard", "--state", "blocked").stderr, "--dry-run")
	do(2, "outbox", "discard", "--state", "blocked", "--yes", "--confirm", "2")
	do(2, "outbox", "discard", "--state", "lost", "--yes")
	do(2, "outbox", "discard", "head", "--actor", "")
	require.Equal(t, report{Count: 2}, changed(do(0, "outbox", "discard", "--state", "blocked", "--dry-run", "--json")))
	require.Contains(t, do(6, "outbox", "discard", "--state", "blocked", "--confirm", "3").stderr, "2 would change, not 3")
	require.Equal(t, "blocked", parkedState(t, db, "second"))
	require.Equal(t, report{Count: 1, Skipped: 2}, changed(do(0, "outbox", "skip", "--topic", "orders", "--confirm", "1", "--json")))
	require.Equal(t, "quarantined", parkedState(t, db, "head"))
	do(0, "outbox", "discard", "--state", "blocked", "--confirm", "2", "--reason", "r")
	require.Equal(t, "discarded", parkedState(t, db, "third"))
	do(6, "outbox", "discard", "third")
	do(2, "outbox", "assign", "third")
	require.Equal(t, report{Count: 2}, changed(do(0, "outbox", "assign", "--state", "discarded", "--owner", "bob", "--yes", "--json")))
	do(2, "outbox", "assign", "--owner", "bob")
	do(0, "outbox", "assign", "third", "--owner", "")
}

func TestOutboxEditShowsBeforeAndAfter(t *testing.T) {
	db, do := outboxFixture(t)
	edit := func(code int, args ...string) result { return do(code, append([]string{"outbox", "edit"}, args...)...) }
	require.Contains(t, edit(2, "head", "--destination", "elsewhere").stderr, "--reason")
	edit(2, "head", "--reason", "r")
	edit(2, "head", "--reason", "r", "--destination", "a b")
	edit(2, "head", "--reason", "r", "--metadata", "colour")
	edit(2, "head", "--reason", "r", "--metadata", "colour=blue", "--remove-metadata", "colour")
	require.Contains(t, edit(2, "head", "--reason", "r", "--metadata", "event_id=x").stderr, "who the event is")
	dry := edit(0, "head", "--reason", "r", "--destination", "elsewhere", "--metadata", "colour=blue,green", "--remove-metadata", "event_type", "--dry-run").stdout
	for _, line := range []string{"topic: orders → elsewhere", "metadata.colour: red → blue,green", "metadata.event_type: x → -", "state: quarantined → retrying", "1 would be edited"} {
		require.Contains(t, dry, line)
	}
	require.Equal(t, "quarantined", parkedState(t, db, "head"))
	edit(0, "head", "--reason", "r", "--metadata", "colour=blue", "--retry=false")
	require.Equal(t, "quarantined", parkedState(t, db, "head"))
	edit(0, "--state", "blocked", "--reason", "r", "--metadata", "colour=blue", "--yes")
	require.Equal(t, "blocked", parkedState(t, db, "second"))
	edit(0, "head", "--reason", "r", "--destination", "elsewhere")
	require.Equal(t, "retrying", parkedState(t, db, "head"))
	require.Contains(t, do(0, "outbox", "show", "head").stdout, "elsewhere")
}

func TestOutboxPausesOnceAndResumesOnce(t *testing.T) {
	db, do := outboxFixture(t)
	for _, of := range [][]string{{"--topic", "orders"}, {"--aggregate", "order/a/1"}} {
		pause := func(code int, action string, args ...string) result {
			return do(code, slices.Concat([]string{"outbox", action}, of, args)...)
		}
		pause(5, "resume")
		pause(0, "pause", "--dry-run")
		pause(5, "resume", "--dry-run")
		require.Equal(t, []string{"action", "aggregate_id", "aggregate_type", "dry_run", "topic"}, pause(0, "pause", "--json").names(t))
		pause(6, "pause")
		pause(6, "pause", "--dry-run")
		pause(0, "resume", "--dry-run")
		pause(0, "resume", "--reason", "over")
		pause(5, "resume")
	}
	do(2, "outbox", "pause")
	do(2, "outbox", "pause", "--topic", "orders", "--aggregate", "order/1")
	do(2, "outbox", "pause", "--aggregate", "order")
	var version, lines int
	require.NoError(t, db.QueryRowContext(t.Context(), "select version, (select count(*) from millrace.audit) from millrace.outbox_control").Scan(&version, &lines))
	require.Equal(t, []int{5, 4}, []int{version, lines})
}

// An alarm on what waits must not ring for what people have put aside, nor be silent about a topic that is held.
func TestMetricsCountWhatIsNeitherSentNorParked(t *testing.T) {
	db, _ := outboxFixture(t)
	collector, err := metrics.NewOutboxCollector(db, metrics.OutboxConfig{Timeout: time.Minute})
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	pending := func() float64 {
		t.Helper()
		families, err := registry.Gather()
		require.NoError(t, err)
		values := map[string]float64{}
		for _, f := range families {
			values[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
		n, ok := values["millrace_outbox_pending"]
		require.True(t, ok)
		require.Equal(t, n > 0, values["millrace_outbox_oldest_pending_seconds"] > 0)
		return n
	}
	exec := func(statement string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	require.InDelta(t, 1, pending(), 0)
	exec(`update millrace.outbox_shard set frontier_position = (select max(position) from millrace.outbox)`)
	require.InDelta(t, 0, pending(), 0)
	exec(`insert into millrace.outbox_lane (shard, topic, frontier_snapshot, frontier_position, held, reason) select shard, 'absent', '1:1:', 0, true, 'unavailable' from millrace.outbox_shard`)
	require.InDelta(t, 0, pending(), 0)
	exec(`insert into millrace.outbox_lane (shard, topic, frontier_snapshot, frontier_position, held, reason) select shard, 'orders', '1:1:', 0, true, 'paused' from millrace.outbox_shard`)
	require.InDelta(t, 1, pending(), 0)
}
