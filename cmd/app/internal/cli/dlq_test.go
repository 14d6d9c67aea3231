package cli_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
)

func bury(t *testing.T, db *sql.DB, consumer, id string) {
	t.Helper()
	store, err := inbox.NewStore(db, inbox.Config{})
	require.NoError(t, err)
	_, err = store.Bury(t.Context(), inbox.Event{
		Consumer: consumer, ID: id, Delivery: event.Delivery{Topic: "orders", Partition: 2, Offset: 7, Key: []byte("k")}, HasDelivery: true,
		Payload: []byte(`{"n":1}`), Headers: map[string]string{"event_id": id}, Attempts: 4,
	}, inbox.Death{Class: inbox.ClassTransient, FirstError: "first", LastError: "last"}, nil)
	require.NoError(t, err)
}

var deadLetterFields = []string{
	"attempts", "consumer", "created_at", "deaths", "error_class", "event_id", "first_error", "last_error", "offset",
	"partition", "payload_bytes", "replays", "state", "topic", "updated_at",
}

func TestDeadLetterCommands(t *testing.T) {
	db, dsn := testkit.MigratedDatabase(t)
	bury(t, db, "billing", "e-1")
	bury(t, db, "billing", "e-2")
	bury(t, db, "shipping", "e-2")
	bury(t, db, "search", "e-3")
	dlq := func(code int, args ...string) result {
		t.Helper()
		done := run(t, command(t, millrace, []string{"MILLRACE_DATABASE_URL=" + dsn}, append([]string{"dlq"}, args...)...))
		require.Equal(t, code, done.code, "%s\n%s", done.stdout, done.stderr)
		return done
	}

	list := dlq(0, "list", "--json")
	names := []string{"count", "dead_letters", "more"}
	for _, name := range deadLetterFields {
		names = append(names, "dead_letters[]."+name)
	}
	require.ElementsMatch(t, names, list.names(t))
	var page struct {
		Count       int
		More        bool
		DeadLetters []struct {
			EventID string `json:"event_id"`
		} `json:"dead_letters"`
	}
	list.document(t, &page)
	require.Equal(t, 4, page.Count)
	require.False(t, page.More)
	dlq(0, "list", "--json", "--limit", "2").document(t, &page)
	require.Equal(t, 2, page.Count)
	require.True(t, page.More)
	dlq(0, "list", "--json", "--consumer", "shipping").document(t, &page)
	require.Equal(t, 1, page.Count)

	show := dlq(0, "show", "e-1", "--json")
	require.ElementsMatch(t, append([]string{"record_time", "due_at", "key", "headers", "headers.event_id", "stack", "payload", "payload.n"},
		deadLetterFields...), show.names(t))
	require.Contains(t, dlq(2, "show", "e-2").stderr, "--consumer billing, or shipping")
	dlq(0, "show", "e-2", "--consumer", "shipping")
	dlq(5, "show", "unknown")
	dlq(5, "show", "e-1", "--consumer", "shipping")

	require.Contains(t, dlq(2, "replay", "e-1").stderr, "eason")
	dry := dlq(0, "replay", "e-1", "--reason", "r", "--dry-run", "--json")
	require.Equal(t, []string{"consumer", "dry_run", "event_id", "failed", "replayed", "skipped"}, dry.names(t))
	state := func(consumer, id string) (state string) {
		require.NoError(t, db.QueryRowContext(t.Context(), "select state from millrace.inbox where consumer = $1 and event_id = $2", consumer, id).Scan(&state))
		return state
	}
	require.Equal(t, "dead", state("billing", "e-1"))
	dlq(0, "replay", "e-1", "--reason", "mended", "--actor", "ann")
	require.Equal(t, "parked", state("billing", "e-1"))
	var actor, reason string
	require.NoError(t, db.QueryRowContext(context.Background(), "select actor, reason from millrace.audit").Scan(&actor, &reason))
	require.Equal(t, "ann/mended", actor+"/"+reason)

	dlq(6, "replay", "e-1", "--reason", "again")
	dlq(6, "replay", "e-1", "--reason", "again", "--dry-run")
	dlq(5, "replay", "unknown", "--reason", "r")
	dlq(5, "replay", "e-1", "--consumer", "shipping", "--reason", "r")
}
