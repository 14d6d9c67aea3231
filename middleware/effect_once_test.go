package middleware_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/middleware"
)

var drivers = []string{"postgres", "pgx"}

func TestAnEventIsNotMarkedAsSeenBeforeItTookEffect(t *testing.T) {
	r := newRig(t)
	var calls atomicCounter
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": func(msg *message.Message) error {
		if err := write(msg); err != nil {
			return err
		}
		switch calls.add() {
		case 1:
			return errFailed
		case 2:
			panic("after the write")
		}
		return nil
	}})
	r.deliver(event.New("order.paid", []byte("{}")))

	require.Equal(t, 3, calls.get())
	require.Equal(t, 1, r.effects())
	require.Equal(t, 1, r.count("select count(*) from millrace.inbox where state = 'done' and attempts = 3"))
	require.Equal(t, 1, r.count("select count(*) from millrace.inbox"))
	require.Empty(t, r.published())
}

func TestAnEventDeliveredThreeTimesActsOnce(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			var applied, duplicates atomicCounter
			dedup := middleware.Dedup{
				DB:          testkit.Open(t, driver, r.dsn),
				OnApplied:   func(*message.Message) { applied.add() },
				OnDuplicate: func(*message.Message) { duplicates.add() },
			}
			r.router([]message.HandlerMiddleware{dedup.Middleware}, map[string]message.NoPublishHandlerFunc{"projection": write})
			msg := event.New("order.paid", []byte("{}"))
			r.deliver(msg, msg, msg)

			require.Equal(t, 1, r.effects())
			require.Equal(t, 1, applied.get())
			require.Equal(t, 2, duplicates.get())
		})
	}
}

func TestOfTwoCopiesAtTheSameInstantOneActsAndTheOtherIsAcknowledged(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			entered, leave := make(chan struct{}, 2), make(chan struct{})
			var retries atomicCounter
			handle := middleware.Retry{OnRetryHook: func(int, time.Duration) { retries.add() }}.Middleware(
				middleware.Dedup{DB: testkit.Open(t, driver, r.dsn), Consumer: "projection"}.Middleware(
					func(msg *message.Message) ([]*message.Message, error) {
						entered <- struct{}{}
						<-leave
						return nil, write(msg)
					}))
			msg := event.New("order.paid", []byte("{}"))
			results := make(chan error, 2)
			for range 2 {
				copied := msg.Copy()
				go func() { _, err := handle(copied); results <- err }()
			}
			<-entered
			require.Eventually(t, func() bool {
				return r.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 1
			}, patience, tick, "the other copy waits for the first")
			close(leave)

			require.NoError(t, <-results)
			require.NoError(t, <-results)
			require.Empty(t, entered, "the handler ran once")
			require.Equal(t, 1, r.effects())
			require.Zero(t, retries.get())
		})
	}
}

func TestTwoHandlersOfOneEventEachAct(t *testing.T) {
	r := newRig(t)
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": write, "mailer": write})
	msg := event.New("order.paid", []byte("{}"))
	r.deliver(msg, msg)

	require.Equal(t, 2, r.effects())
	require.Equal(t, 1, r.count("select count(*) from effect where consumer = 'mailer'"))
}

func TestTwoServicesOnOneDatabaseEachAct(t *testing.T) {
	r := newRig(t)
	for _, service := range []string{"billing.projection", "shipping.projection"} {
		dedup := middleware.Dedup{DB: r.db, Consumer: service}
		r.router([]message.HandlerMiddleware{dedup.Middleware}, map[string]message.NoPublishHandlerFunc{"projection": write})
	}
	msg := event.New("order.paid", []byte("{}"))
	r.deliver(msg, msg)
	require.Equal(t, 2, r.effects())
}

func TestRecordsWithoutEventIDDoNotShareOne(t *testing.T) {
	r := newRig(t)
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": write})
	for i, body := range []string{"first", "second"} {
		msg := message.NewMessage("record-"+body, []byte(body))
		r.at(msg, event.Delivery{Topic: "orders", Partition: 1, Offset: int64(i), Timestamp: time.UnixMilli(1)})
		r.deliver(msg, msg)
	}
	require.Equal(t, 2, r.effects())
	require.Equal(t, 2, r.count("select count(distinct event_id) from effect where event_id like 'derived:%'"))
}

func TestRecordsOfARecreatedTopicAreNotTakenForTheOldOnes(t *testing.T) {
	r := newRig(t)
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": write})
	for i := range 2 {
		msg := message.NewMessage("record-"+time.UnixMilli(int64(i)).String(), []byte("same body"))
		r.deliver(r.at(msg, event.Delivery{Topic: "orders", Timestamp: time.UnixMilli(int64(i))}))
	}
	require.Equal(t, 2, r.effects())
}

func TestRecordsThatCannotBeIdentifiedAreDeadWithTheReason(t *testing.T) {
	r := newRig(t)
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": write})
	r.deliver(message.NewMessage("", []byte("first")), message.NewMessage("", []byte("second")))

	require.Zero(t, r.effects())
	dead := r.dead()
	require.Len(t, dead, 2)
	for _, d := range dead {
		require.Contains(t, d.LastError, "missing event_id")
		require.Equal(t, inbox.ClassPermanent, d.ErrorClass)
		require.Equal(t, 1, d.Attempts)
	}
}

func TestAMissingEventIDCanBeRefused(t *testing.T) {
	r := newRig(t)
	handle := middleware.Dedup{DB: r.db, Consumer: "projection", RequireEventID: true}.Middleware(nil)
	msg := message.NewMessage("", nil)
	msg.SetContext(event.ContextWithDelivery(context.Background(), event.Delivery{Topic: "orders"}))
	_, err := handle(msg)
	require.ErrorIs(t, err, middleware.ErrMissingEventID)
	require.True(t, event.IsPermanent(err))
}

func TestAnotherBodyUnderAKnownEventIDIsNotDroppedSilently(t *testing.T) {
	r := newRig(t)
	r.router(r.chain(), map[string]message.NoPublishHandlerFunc{"projection": write})
	other := event.New("order.paid", []byte("other"), event.WithID("e-1"))
	r.deliver(event.New("order.paid", []byte("one"), event.WithID("e-1")), other, other)

	require.Equal(t, 1, r.effects())
	dead := r.dead()
	require.Len(t, dead, 1)
	require.Contains(t, dead[0].EventID, "mismatch:")
	require.Contains(t, dead[0].LastError, inbox.ErrPayloadMismatch.Error())
	require.Equal(t, "other", string(dead[0].Payload))
	require.Equal(t, "e-1", dead[0].Headers[event.IDKey])
	require.Equal(t, "e-1", r.published()[0].metadata[event.OriginalIDKey])
}

func TestTheHandlerIsToldADerivedIdentityAndTheMessageIsLeftAsItWas(t *testing.T) {
	r := newRig(t)
	msg := message.NewMessage("", []byte("x"))
	ctx := event.ContextWithDelivery(context.Background(), event.Delivery{Topic: "orders"})
	msg.SetContext(ctx)
	msg.Metadata = nil
	var id string
	_, err := middleware.Dedup{DB: r.db, Consumer: "projection"}.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		id = msg.Metadata[event.IDKey]
		return nil, nil
	})(msg)
	require.NoError(t, err)
	require.Contains(t, id, "derived:")
	require.Empty(t, msg.Metadata)
	require.Equal(t, ctx, msg.Context())
}

func TestAHandlerThatIgnoresAnErrorOfTheDatabaseIsNotTakenForASuccess(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			_, err := middleware.Dedup{DB: testkit.Open(t, driver, r.dsn), Consumer: "projection"}.Middleware(
				func(msg *message.Message) ([]*message.Message, error) {
					tx, _ := event.TxFromContext(msg.Context())
					_, _ = tx.ExecContext(msg.Context(), "select 1/0")
					return nil, nil
				})(event.New("order.paid", nil))
			require.Error(t, err)
			require.False(t, inbox.IsInfrastructure(err))
			require.Zero(t, r.count("select count(*) from millrace.inbox"))
		})
	}
}

func TestConstraintsCheckedAtTheCommitAreTheEventsFailure(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t)
			_, err := r.db.Exec(`create table unique_later (id int unique deferrable initially deferred); insert into unique_later values (1)`)
			require.NoError(t, err)
			_, err = middleware.Dedup{DB: testkit.Open(t, driver, r.dsn), Consumer: "projection"}.Middleware(
				func(msg *message.Message) ([]*message.Message, error) {
					tx, _ := event.TxFromContext(msg.Context())
					_, err := tx.ExecContext(msg.Context(), "insert into unique_later values (1)")
					return nil, err
				})(event.New("order.paid", nil))
			require.Error(t, err)
			require.False(t, inbox.IsInfrastructure(err))
			require.NotErrorIs(t, err, inbox.ErrOutcomeUnknown)
		})
	}
}

func TestAMissingSchemaOrConfigurationGivesNoEventUp(t *testing.T) {
	empty := testkit.DB(t)
	for name, dedup := range map[string]middleware.Dedup{
		"run the migrations": {DB: empty, Consumer: "projection"},
		"DB is missing":      {Consumer: "projection"},
		"set Consumer":       {DB: empty},
	} {
		_, err := dedup.Middleware(nil)(event.New("order.paid", nil))
		require.ErrorContains(t, err, name)
		require.True(t, inbox.IsInfrastructure(err))
	}
}

func TestTheSchemaMayBeAReservedWord(t *testing.T) {
	r := newRig(t)
	_, err := r.db.Exec(`alter schema millrace rename to "order"`)
	require.NoError(t, err)
	handle := middleware.Dedup{DB: r.db, Consumer: "projection", Schema: "order"}.Middleware(
		func(msg *message.Message) ([]*message.Message, error) { return nil, write(msg) })
	_, err = handle(event.New("order.paid", nil))
	require.NoError(t, err)
	var rows int
	require.NoError(t, r.db.QueryRow(`select count(*) from "order".inbox`).Scan(&rows))
	require.Equal(t, 1, rows)
}
