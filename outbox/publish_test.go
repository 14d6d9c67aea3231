package outbox_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

// write publishes in a transaction of its own.
func write(t testing.TB, db *sql.DB, publish func(*outbox.Publisher) error) {
	t.Helper()
	require.NoError(t, outbox.InTx(context.Background(), db, func(_ context.Context, tx *sql.Tx) error {
		return publish(newPublisher(t, tx))
	}))
}

func newPublisher(t testing.TB, tx *sql.Tx) *outbox.Publisher {
	t.Helper()
	publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, nil)
	require.NoError(t, err)
	return publisher
}

// scanOne returns the one value of a query.
func scanOne[T any](t testing.TB, db *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	require.NoError(t, db.QueryRow(query, args...).Scan(&v), query)
	return v
}

// writtenIDs are the event_ids in the outbox in position order.
func writtenIDs(t testing.TB, db *sql.DB) string {
	t.Helper()
	return scanOne[string](t, db, "select coalesce(string_agg(event_id, ' ' order by position), '') from millrace.outbox")
}

// eachDriver runs a test through lib/pq and through pgx.
func eachDriver(t *testing.T, test func(t *testing.T, db *sql.DB)) {
	t.Helper()
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			_, dsn := testkit.MigratedDatabase(t)
			test(t, testkit.Open(t, driver, dsn))
		})
	}
}

func named(id string, attributes ...event.Attribute) *message.Message {
	return event.New("order.paid", []byte("{}"), append([]event.Attribute{event.WithID(id)}, attributes...)...)
}

func TestPayloadBytesAreKept(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	payloads := [][]byte{every, {0x1f, 0x8b, 8, 0, 0xff}, []byte(`{"a":1e2,  "a":2}`), {0}, {}, []byte(`\x00`), []byte("NULL"), nil}
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		for form, publish := range map[string]func(*outbox.Publisher, ...*message.Message) error{
			"together": func(p *outbox.Publisher, msgs ...*message.Message) error { return p.Publish("orders", msgs...) },
			"new": func(p *outbox.Publisher, msgs ...*message.Message) error {
				conflicts, err := p.PublishNew("orders", msgs...)
				require.Empty(t, conflicts)
				return err
			},
			"alone": func(p *outbox.Publisher, msgs ...*message.Message) error {
				for _, msg := range msgs {
					if err := p.Publish("orders", msg); err != nil {
						return err
					}
				}
				return nil
			},
		} {
			var msgs []*message.Message
			for i, payload := range payloads {
				msgs = append(msgs, event.New("t", payload, event.WithID(fmt.Sprint(form, i)), event.PartitionKey("k")))
			}
			write(t, db, func(p *outbox.Publisher) error { return publish(p, msgs...) })
			for i, payload := range payloads {
				id := fmt.Sprint(form, i)
				isNull := scanOne[bool](t, db, "select payload is null from millrace.outbox where event_id = $1", id)
				require.Equal(t, payload == nil, isNull)
				if !isNull {
					hash := sha256.Sum256(payload)
					require.Equal(t, hash[:], scanOne[[]byte](t, db, "select sha256(payload) from millrace.outbox where event_id = $1", id))
				}
				msg, err := outbox.ReadBack(t.Context(), db, id)
				require.NoError(t, err)
				require.Equal(t, payload == nil, msg.Payload == nil)
				require.Equal(t, "k", msg.Metadata[event.PartitionKeyKey])
			}
		}
	})
}

func TestRefusalNamesAllThatIsWrongAndSparesTheTransaction(t *testing.T) {
	long := strings.Repeat("x", 300)
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		for name, bad := range map[string]struct {
			topic    string
			messages []*message.Message
			says     []string
		}{
			"NUL in metadata":           {"orders", []*message.Message{named("a", event.Meta("note", "x\x00y"))}, []string{`"note"`, "U+0000"}},
			"bytes that are not text":   {"orders", []*message.Message{named("a", event.Meta("note", "\xff\xfe"))}, []string{`"note"`, "UTF-8"}},
			"lone surrogate":            {"orders", []*message.Message{named("a", event.Meta("note", "\xed\xa0\x80"))}, []string{`"note"`}},
			"NUL in a metadata key":     {"orders", []*message.Message{named("a", event.Meta("no\x00te", ""))}, []string{`"no\x00te"`}},
			"empty metadata key":        {"orders", []*message.Message{named("a", event.Meta("", "x"))}, []string{"empty key"}},
			"Watermill's header":        {"orders", []*message.Message{named("a", event.Meta("_watermill_message_uuid", "x"))}, []string{"_watermill_message_uuid"}},
			"long event_id":             {"orders", []*message.Message{named(long)}, []string{"event_id", "300", "255"}},
			"event_id with a newline":   {"orders", []*message.Message{named("a\nb")}, []string{"event_id", "control"}},
			"event_id not UTF-8":        {"orders", []*message.Message{named("a\xff")}, []string{"event_id"}},
			"no identity":               {"orders", []*message.Message{message.NewMessage("", nil)}, []string{"event_id"}},
			"empty event_id":            {"orders", []*message.Message{named("a", event.Meta(event.IDKey, ""))}, []string{"event_id"}},
			"long aggregate type":       {"orders", []*message.Message{named("a", event.Aggregate(long, "1", 1))}, []string{"aggregate_type", "300"}},
			"long aggregate id":         {"orders", []*message.Message{named("a", event.Aggregate("order", long, 1))}, []string{"aggregate_id", "300"}},
			"NUL in the aggregate id":   {"orders", []*message.Message{named("a", event.Aggregate("order", "\x00", 1))}, []string{"aggregate_id"}},
			"half an aggregate":         {"orders", []*message.Message{named("a", event.Meta(event.AggregateIDKey, "1"))}, []string{"aggregate_version"}},
			"long type":                 {"orders", []*message.Message{named("a", event.Meta(event.TypeKey, long))}, []string{"event_type", "300"}},
			"long tenant":               {"orders", []*message.Message{named("a", event.Tenant(long))}, []string{"tenant", "300"}},
			"bad kind":                  {"orders", []*message.Message{named("a", event.Meta(event.KindKey, "wish"))}, []string{"event_kind"}},
			"too large":                 {"orders", []*message.Message{event.New("t", make([]byte, 1_000_000))}, []string{"1000000", "1000"}},
			"too large in metadata":     {"orders", []*message.Message{named("a", event.Meta("note", strings.Repeat("x", 1_000_000)))}, []string{"1000000"}},
			"illegal topic":             {"or ders", []*message.Message{named("a")}, []string{"or ders"}},
			"nil message":               {"orders", []*message.Message{named("a"), nil}, []string{"message 1 is nil"}},
			"one event_id twice":        {"orders", []*message.Message{named("a"), named("b"), named("a")}, []string{"0 and 2", `"a"`}},
			"one bad among good":        {"orders", []*message.Message{named("a"), named(long)}, []string{"message 1"}},
			"everything wrong together": {"", []*message.Message{named("a\x01", event.Meta("k", "\xff"), event.SchemaVersion(0))}, []string{"topic", "control", `"k"`, "event_version"}},
		} {
			t.Run(name, func(t *testing.T) {
				require.NoError(t, outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
					publisher := newPublisher(t, tx)
					err := publisher.Publish(bad.topic, bad.messages...)
					require.ErrorIs(t, err, event.ErrInvalid)
					require.True(t, event.IsPermanent(err))
					for _, part := range bad.says {
						require.ErrorContains(t, err, part)
					}
					_, err = publisher.PublishNew(bad.topic, bad.messages...)
					require.ErrorIs(t, err, event.ErrInvalid)
					return publisher.Publish("orders", named("after "+name))
				}))
			})
		}
		require.Equal(t, 25, scanOne[int](t, db, "select count(*) from millrace.outbox"), "nothing but what came after a refusal")
	})
}

func TestUnusualEventsAreKeptUnchanged(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		for _, id := range []string{strings.Repeat("a", 26), strings.Repeat("b", 36), strings.Repeat("c", 37), strings.Repeat("d", 128),
			strings.Repeat("é", 127), "订单-4711 🧾", "null", "{}", `a"b\c'd`} {
			want := named(id, event.Meta("note", strings.Repeat("ü", 1<<15)), event.Meta(`q"\`, "\x01\x7f\u2028"), event.Aggregate("order", id, 1))
			write(t, db, func(p *outbox.Publisher) error { return p.Publish("orders", want) })
			got, err := outbox.ReadBack(t.Context(), db, id)
			require.NoError(t, err)
			require.Equal(t, want.Metadata, got.Metadata)
		}
	})
}

func TestMessageWithoutEventIDIsKnownByItsUUID(t *testing.T) {
	db := testkit.Migrated(t)
	msg := message.NewMessage("the-uuid", []byte("{}"))
	msg.Metadata["name"] = "OrderPaid" // as Watermill's cqrs component names events
	write(t, db, func(p *outbox.Publisher) error { return p.Publish("orders", msg) })
	got, err := outbox.ReadBack(t.Context(), db, "the-uuid")
	require.NoError(t, err)
	require.Equal(t, message.Metadata{"name": "OrderPaid", "event_id": "the-uuid"}, got.Metadata, "and no other key is made up")
	require.Equal(t, message.Metadata{"name": "OrderPaid"}, msg.Metadata, "the caller's message is not changed")
	require.Equal(t, "OrderPaid", scanOne[string](t, db, "select event_type from millrace.outbox"))
}

func TestRollbackLeavesNoEvent(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		_, err := db.Exec("create table orders (id int)")
		require.NoError(t, err)
		tx, err := db.Begin()
		require.NoError(t, err)
		_, err = tx.Exec("insert into orders values (1)")
		require.NoError(t, err)
		require.NoError(t, newPublisher(t, tx).Publish("a-topic-never-used-before", named("a")))
		require.NoError(t, tx.Rollback())
		require.Zero(t, scanOne[int](t, db, "select count(*) from orders"))
		require.Empty(t, writtenIDs(t, db))
	})
}

func TestMissingTablesAreNamedAndNothingIsCommitted(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		db := testkit.Open(t, driver, testkit.DSN(t))
		_, err := db.Exec("create table orders (id int)")
		require.NoError(t, err)
		err = outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
			_, err := tx.Exec("insert into orders values (1)")
			require.NoError(t, err)
			return newPublisher(t, tx).Publish("orders", named("a"))
		})
		require.ErrorIs(t, err, outbox.ErrNotMigrated)
		require.ErrorContains(t, err, "millrace migrate up")
		require.Zero(t, scanOne[int](t, db, "select count(*) from orders"))
		require.False(t, scanOne[bool](t, db, "select to_regnamespace('millrace') is not null"), "no tables behind the caller's back")
		require.ErrorIs(t, outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
			_, err := outbox.NextVersion(ctx, tx, "order", "1")
			return err
		}), outbox.ErrNotMigrated)
		_, err = outbox.Lookup(t.Context(), db, "a")
		require.ErrorIs(t, err, outbox.ErrNotMigrated)
	}
}

func TestSavepointThatIsRolledBackTakesItsEventsAlong(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		require.NoError(t, outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
			publisher := newPublisher(t, tx)
			require.NoError(t, publisher.Publish("orders", named("e1")))
			_, err := tx.ExecContext(ctx, "savepoint s")
			require.NoError(t, err)
			require.NoError(t, publisher.Publish("orders", named("e2")))
			_, err = tx.ExecContext(ctx, "rollback to savepoint s")
			require.NoError(t, err)
			return publisher.Publish("orders", named("e3"))
		}))
		require.Equal(t, "e1 e3", writtenIDs(t, db))
	})
}

func TestPublishNothingIsNoStatement(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		_, err := db.Exec("create table orders (id int)")
		require.NoError(t, err)
		require.NoError(t, outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
			require.NoError(t, newPublisher(t, tx).Publish("orders"))
			conflicts, err := newPublisher(t, tx).PublishNew("orders")
			require.NoError(t, err)
			require.Empty(t, conflicts)
			_, err = tx.Exec("insert into orders values (1)")
			return err
		}))
		require.Equal(t, 1, scanOne[int](t, db, "select count(*) from orders"))
	})
}

func TestTopicsWithSimilarNamesStayApart(t *testing.T) {
	db := testkit.Migrated(t)
	topics := []string{"orders", "offsets_orders", "Orders", "a.b", "a-b", "a_b", strings.Repeat("x", 62) + "1", strings.Repeat("x", 62) + "2"}
	for _, topic := range topics {
		write(t, db, func(p *outbox.Publisher) error {
			return p.Publish(topic, named("in "+topic, event.Aggregate("order", "1", 1)))
		})
	}
	for _, topic := range topics {
		require.Equal(t, "in "+topic, scanOne[string](t, db, "select string_agg(event_id, ' ') from millrace.outbox where topic = $1", topic))
	}
}

func TestLongListsKeepTheirOrder(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		var msgs []*message.Message
		var want []string
		for i := range 250 {
			msgs = append(msgs, event.New("t", make([]byte, i%3*50_000), event.WithID(fmt.Sprintf("e%03d", i)), event.Aggregate("order", "1", int64(i+1))))
			want = append(want, msgs[i].UUID)
		}
		write(t, db, func(p *outbox.Publisher) error { return p.Publish("orders", msgs[:120]...) })
		write(t, db, func(p *outbox.Publisher) error {
			conflicts, err := p.PublishNew("orders", msgs[110:]...)
			require.Len(t, conflicts, 10)
			return err
		})
		require.Equal(t, strings.Join(want, " "), writtenIDs(t, db))
	})
}

func TestOtherSchema(t *testing.T) {
	db := testkit.DB(t)
	migrate(t, db, "acme")
	require.NoError(t, outbox.InTx(t.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
		publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{Schema: "acme"}, nil)
		require.NoError(t, err)
		version, err := outbox.Tables{Schema: "acme"}.NextVersion(ctx, tx, "order", "1")
		require.NoError(t, err)
		return publisher.Publish("orders", named("a", event.Aggregate("order", "1", version)))
	}))
	outcome, err := outbox.Tables{Schema: "acme"}.Lookup(t.Context(), db, "a")
	require.NoError(t, err)
	require.True(t, outcome.Committed)
	require.Equal(t, "orders", outcome.Topic)
}

func TestPublisherConfigNamesEveryBadField(t *testing.T) {
	require.NoError(t, outbox.PublisherConfig{}.Validate())
	config := outbox.PublisherConfig{Schema: "Bad", MaxRecordBytes: -1, MaxRows: 6000}
	for _, part := range []string{`Schema "Bad"`, "MaxRecordBytes -1", "MaxRows 6000"} {
		require.ErrorContains(t, config.Validate(), part)
	}
	_, err := outbox.NewContextPublisher(config, nil)
	require.Error(t, err)
	_, err = outbox.Tables{Schema: `x"; drop table`}.Lookup(t.Context(), nil, "a")
	require.ErrorContains(t, err, "Schema")
}

func TestLogsAndErrorsNeverShowPayloads(t *testing.T) {
	const canary = "4929-1234-5678-9012"
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		logger := watermill.NewCaptureLogger()
		msg := func() *message.Message {
			return event.New("t", []byte(canary), event.WithID("a"), event.Meta("card", canary))
		}
		for range 2 { // the second time it is a conflict
			err := outbox.InTx(t.Context(), db, func(_ context.Context, tx *sql.Tx) error {
				publisher, err := outbox.NewPublisher(tx, outbox.PublisherConfig{}, logger)
				require.NoError(t, err)
				return publisher.Publish("orders", msg())
			})
			require.NotContains(t, fmt.Sprint(err), canary)
		}
		var seen string
		for level, messages := range logger.Captured() {
			for _, m := range messages {
				seen += fmt.Sprintln(level, m.Msg, m.Fields, m.Err)
			}
		}
		require.Contains(t, seen, "event_id:a")
		require.NotContains(t, seen, canary)
	})
}
