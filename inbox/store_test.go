package inbox_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

var (
	operator  = inbox.By{Actor: "ann", Reason: "handler mended"}
	errEffect = errors.New("effect failed")
)

func newStore(t *testing.T) (*inbox.Store, *sql.DB) {
	t.Helper()
	db := testkit.Migrated(t)
	store, err := inbox.NewStore(db, inbox.Config{})
	require.NoError(t, err)
	return store, db
}

func paid(id string) inbox.Event {
	return inbox.Event{
		Consumer: "projection", ID: id, HasDelivery: true, Delivery: event.Delivery{Topic: "orders", Partition: 1, Offset: 2},
		Payload: []byte("body of " + id), Headers: map[string]string{event.IDKey: id},
	}
}

func bury(t *testing.T, store *inbox.Store, e inbox.Event) {
	t.Helper()
	outcome, err := store.Bury(t.Context(), e, inbox.Death{Class: inbox.ClassTransient, FirstError: "first", LastError: "last"}, nil)
	require.NoError(t, err)
	require.Equal(t, inbox.Applied, outcome)
}

func TestAStoreNeedsADatabaseAndASchemaThatFits(t *testing.T) {
	for _, schema := range []string{strings.Repeat("s", 64), "Orders", "a-b", `a"b`, "1st", "s\x00", "ä"} {
		_, err := inbox.NewStore(nil, inbox.Config{Schema: schema})
		require.ErrorContains(t, err, "database")
		require.ErrorContains(t, err, "Schema", schema)
	}
	require.NoError(t, inbox.Config{}.Validate())
	require.NoError(t, inbox.Config{Schema: strings.Repeat("s", 63)}.Validate())
}
