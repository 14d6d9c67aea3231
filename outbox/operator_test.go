package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

func TestOperatorChangesStatesAsTheirMeaningSays(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		o := newOperator(t, db, "ann")
		keyed(t, db, "a", "a1", "a2")
		keyed(t, db, "b", "b1")
		keyed(t, db, "c", "c1")
		park(t, db, "a1", "quarantined", true)
		park(t, db, "a2", "blocked", true)
		park(t, db, "b1", "retrying", true)
		park(t, db, "c1", "scheduled", false)
		do := oneChange(t)

		c := do(o.Retry(t.Context(), events("a1")))
		require.NoError(t, c.Err)
		require.Equal(t, "retrying", c.State)
		require.Equal(t, "retrying blocks due 0 r1", row(t, db, "a1"))
		require.NoError(t, do(o.Retry(t.Context(), events("b1"))).Err)
		require.Equal(t, "retrying blocks due 0 r1", row(t, db, "b1"))
		require.NoError(t, do(o.Retry(t.Context(), events("c1"))).Err)
		require.Equal(t, "retrying due 0 r1", row(t, db, "c1"))

		require.NoError(t, do(o.Skip(t.Context(), events("a1"))).Err)
		require.Equal(t, "quarantined 0 r2", row(t, db, "a1"))
		require.NoError(t, do(o.Retry(t.Context(), events("a1"))).Err)
		require.Equal(t, "retrying due 0 r3", row(t, db, "a1"))

		require.NoError(t, do(o.Assign(t.Context(), "bob", events("a2"))).Err)
		require.Equal(t, "blocked blocks 4 r1 bob", row(t, db, "a2"))
		require.NoError(t, do(o.Discard(t.Context(), events("a2"))).Err)
		require.Equal(t, "discarded 4 r2 bob", row(t, db, "a2"))
		require.NoError(t, do(o.Assign(t.Context(), "", events("a2"))).Err)
		require.Equal(t, "discarded 4 r3", row(t, db, "a2"))
	})
}

// Whoever is told no has to know what to do instead.
func TestOperatorNamesTheStateAndTheRemedyWhereItRefuses(t *testing.T) {
	db := testkit.Migrated(t)
	o := newOperator(t, db, "ann")
	keyed(t, db, "a", "head", "follower", "discarded")
	keyed(t, db, "b", "paused", "aside", "pending", "sent")
	park(t, db, "head", "quarantined", true)
	park(t, db, "follower", "blocked", true)
	park(t, db, "discarded", "discarded", false)
	park(t, db, "paused", "blocked", true)
	park(t, db, "aside", "quarantined", false)
	receipt(t, db, "sent")
	require.NoError(t, o.Pause(t.Context(), outbox.Pause{AggregateType: "order", AggregateID: "b"}, false))
	before := everything(t, db)
	do := oneChange(t)
	topic := outbox.Edit{Topic: "elsewhere"}
	yes := true
	for _, refused := range []struct {
		change outbox.Change
		err    error
		says   string
	}{
		{do(o.Retry(t.Context(), events("follower"))), outbox.ErrWrongState, "blocked: it waits for event head of its key, which is quarantined: retry, skip or discard"},
		{do(o.Retry(t.Context(), events("paused"))), outbox.ErrWrongState, "aggregate order/b is paused: resume"},
		{do(o.Retry(t.Context(), events("discarded"))), outbox.ErrWrongState, "final"},
		{do(o.Skip(t.Context(), events("follower"))), outbox.ErrWrongState, "it waits for event head"},
		{do(o.Skip(t.Context(), events("aside"))), outbox.ErrWrongState, "nothing waits for it"},
		{do(o.Discard(t.Context(), events("discarded"))), outbox.ErrWrongState, "already"},
		{do(o.Edit(t.Context(), topic, events("discarded"))), outbox.ErrWrongState, "final"},
		{do(o.Edit(t.Context(), outbox.Edit{Topic: "x", Retry: &yes}, events("follower"))), outbox.ErrWrongState, "it waits for event head"},
		{do(o.Retry(t.Context(), events("pending"))), outbox.ErrNotParked, "pending"},
		{do(o.Discard(t.Context(), events("sent"))), outbox.ErrNotParked, "sent"},
		{do(o.Assign(t.Context(), "bob", events("unknown"))), outbox.ErrNotFound, ""},
		{do(o.Assign(t.Context(), "bob", events("nul\x00"))), outbox.ErrNotFound, ""},
	} {
		require.ErrorIs(t, refused.change.Err, refused.err)
		require.ErrorContains(t, refused.change.Err, refused.says)
		require.Empty(t, refused.change.Differences)
	}
	require.Equal(t, before, everything(t, db))
}

func TestOperatorDoesToEachEventWhatIsPossible(t *testing.T) {
	db := testkit.Migrated(t)
	o := newOperator(t, db, "ann")
	keyed(t, db, "a", "head", "follower")
	park(t, db, "head", "quarantined", true)
	park(t, db, "follower", "blocked", true)
	changes, err := o.Retry(t.Context(), events("unknown", "follower", "head", "head"))
	require.NoError(t, err)
	require.Len(t, changes, 3)
	require.ErrorIs(t, changes[0].Err, outbox.ErrNotFound)
	require.ErrorIs(t, changes[1].Err, outbox.ErrWrongState)
	require.NoError(t, changes[2].Err)
	require.Equal(t, "retrying blocks due 0 r1", row(t, db, "head"))
	require.Equal(t, "blocked blocks 4 r0", row(t, db, "follower"))
}

func TestOperatorEditsHowAnEventIsSentAndNeverItsRow(t *testing.T) {
	eachDriver(t, func(t *testing.T, db *sql.DB) {
		o := newOperator(t, db, "ann")
		keyed(t, db, "a", "head", "follower")
		park(t, db, "head", "quarantined", true)
		park(t, db, "follower", "blocked", true)
		events0 := scanOne[string](t, db, "select string_agg(o::text, ';' order by position) from millrace.outbox o")
		blue, odd := "blue", `"\ ü`
		do := oneChange(t)
		text := func(s string) *string { return &s }

		edit := outbox.Edit{Topic: "elsewhere", Metadata: map[string]*string{"colour": &blue, "odd": &odd, "event_type": nil}}
		c := do(o.Edit(t.Context(), edit, events("head")))
		require.NoError(t, c.Err)
		require.Equal(t, []outbox.Difference{
			{Field: "state", Before: text("quarantined"), After: text("retrying")},
			{Field: "due_at", After: text("now")},
			{Field: "attempts", Before: text("4"), After: text("0")},
			{Field: "topic", Before: text("orders"), After: text("elsewhere")},
			{Field: "metadata.colour", Before: text("red"), After: &blue},
			{Field: "metadata.event_type", Before: text("order.paid")},
			{Field: "metadata.odd", After: &odd},
		}, c.Differences)
		require.Equal(t, `retrying blocks due 0 r1 elsewhere {"odd": "\"\\ ü", "colour": "blue", "event_type": null}`, row(t, db, "head"))

		// A second edit is merged with the first; the event's own topic undoes that.
		no := false
		c = do(o.Edit(t.Context(), outbox.Edit{Topic: "orders", Metadata: map[string]*string{"odd": nil}, Retry: &no}, events("head")))
		require.Equal(t, []outbox.Difference{
			{Field: "topic", Before: text("elsewhere"), After: text("orders")}, {Field: "metadata.odd", Before: &odd},
		}, c.Differences)
		require.Equal(t, `retrying blocks due 0 r2 {"odd": null, "colour": "blue", "event_type": null}`, row(t, db, "head"))

		// A follower waits on.
		c = do(o.Edit(t.Context(), outbox.Edit{Topic: "elsewhere"}, events("follower")))
		require.NoError(t, c.Err)
		require.Equal(t, "blocked blocks 4 r1 elsewhere", row(t, db, "follower"))
		require.Equal(t, events0, scanOne[string](t, db, "select string_agg(o::text, ';' order by position) from millrace.outbox o"))
	})
}

func TestOperatorRefusesEditsOfWhoAnEventIs(t *testing.T) {
	db := testkit.Migrated(t)
	o := newOperator(t, db, "ann")
	x := "x"
	for _, key := range []string{"event_id", "aggregate_type", "aggregate_id", "aggregate_version", "partition_key", "deliver_at", "", "a\x00"} {
		_, err := o.Edit(t.Context(), outbox.Edit{Metadata: map[string]*string{key: &x}}, events("a"))
		require.ErrorContains(t, err, "Metadata[")
	}
	_, err := o.Edit(t.Context(), outbox.Edit{Topic: "not a topic"}, outbox.Operation{EventIDs: []string{"a"}})
	require.ErrorContains(t, err, "not a topic")
	require.ErrorContains(t, err, "Reason is missing")
	_, err = o.Edit(t.Context(), outbox.Edit{}, events("a"))
	require.ErrorContains(t, err, "neither Topic nor Metadata")
	_, err = newOperator(t, db, "").Retry(t.Context(), events("a"))
	require.ErrorContains(t, err, "Actor is missing")
	_, err = outbox.NewOperator(nil, outbox.OperatorConfig{Schema: "A", Actor: "\x00"})
	for _, field := range []string{"database", "Schema", "Actor"} {
		require.ErrorContains(t, err, field)
	}
}

func TestOperatorDryRunSaysTheSameAndChangesNothing(t *testing.T) {
	db := testkit.Migrated(t)
	o := newOperator(t, db, "ann")
	keyed(t, db, "a", "head", "follower")
	park(t, db, "head", "quarantined", true)
	park(t, db, "follower", "blocked", true)
	operations := map[string]func(outbox.Operation) ([]outbox.Change, error){
		"edit": func(op outbox.Operation) ([]outbox.Change, error) {
			return o.Edit(t.Context(), outbox.Edit{Topic: "elsewhere"}, op)
		},
		"retry":   func(op outbox.Operation) ([]outbox.Change, error) { return o.Retry(t.Context(), op) },
		"skip":    func(op outbox.Operation) ([]outbox.Change, error) { return o.Skip(t.Context(), op) },
		"assign":  func(op outbox.Operation) ([]outbox.Change, error) { return o.Assign(t.Context(), "bob", op) },
		"discard": func(op outbox.Operation) ([]outbox.Change, error) { return o.Discard(t.Context(), op) },
	}
	for _, action := range []string{"edit", "retry", "skip", "assign", "discard"} {
		op := events("head", "follower", "unknown")
		op.DryRun = true
		before := everything(t, db)
		dry, err := operations[action](op)
		require.NoError(t, err)
		require.Equal(t, before, everything(t, db), action)
		op.DryRun = false
		real, err := operations[action](op)
		require.NoError(t, err)
		require.Equal(t, real, dry, action)
		require.NotEqual(t, before, everything(t, db), action)
	}
	before := everything(t, db)
	p := outbox.Pause{Topic: "orders"}
	require.NoError(t, o.Pause(t.Context(), p, true))
	require.ErrorIs(t, o.Resume(t.Context(), p, true), outbox.ErrNotPaused)
	require.Equal(t, before, everything(t, db))
	require.NoError(t, o.Pause(t.Context(), p, false))
	before = everything(t, db)
	require.ErrorIs(t, o.Pause(t.Context(), p, true), outbox.ErrPaused)
	require.NoError(t, o.Resume(t.Context(), p, true))
	require.Equal(t, before, everything(t, db))
}

// Relays would never learn of a change without the version, and nobody of its author without the audit.
func TestOperatorWritesAuditAndVersionWithEveryChangeOrNothing(t *testing.T) {
	db := testkit.Migrated(t)
	o := newOperator(t, db, "ann")
	keyed(t, db, "a", "head", "follower")
	park(t, db, "head", "quarantined", true)
	park(t, db, "follower", "blocked", true)
	p := outbox.Pause{AggregateType: "order", AggregateID: "a", Reason: "mended"}
	for n, operate := range []func() error{
		func() error { _, err := o.Retry(t.Context(), events("head")); return err },
		func() error { _, err := o.Skip(t.Context(), events("head")); return err },
		func() error {
			_, err := o.Edit(t.Context(), outbox.Edit{Topic: "elsewhere"}, events("head"))
			return err
		},
		func() error { _, err := o.Assign(t.Context(), "bob", events("head")); return err },
		func() error { _, err := o.Discard(t.Context(), events("head")); return err },
		func() error { return o.Pause(t.Context(), p, false) },
		func() error { return o.Resume(t.Context(), p, false) },
	} {
		_, err := db.ExecContext(t.Context(), "alter table millrace.audit add constraint broken check (actor <> 'ann') not valid")
		require.NoError(t, err)
		before := everything(t, db)
		require.Error(t, operate())
		require.Equal(t, before, everything(t, db))
		_, err = db.ExecContext(t.Context(), "alter table millrace.audit drop constraint broken")
		require.NoError(t, err)
		require.NoError(t, operate())
		require.Equal(t, n+2, controlVersion(t, db))
		require.Equal(t, n+1, scanOne[int](t, db, "select count(*) from millrace.audit where actor = 'ann' and reason = 'mended'"))
	}
	require.Equal(t, "outbox.retry outbox.skip outbox.edit outbox.assign outbox.discard outbox.pause outbox.resume",
		scanOne[string](t, db, "select string_agg(action, ' ' order by id) from millrace.audit"))
	d, err := o.Show(t.Context(), "head", false)
	require.NoError(t, err)
	require.Len(t, d.Audit, 5)
	require.JSONEq(t, `{"event_id":"head","topic":"orders","state":"quarantined","differences":[
		{"field":"state","before":"quarantined","after":"retrying"},{"field":"due_at","before":null,"after":"now"},
		{"field":"attempts","before":"4","after":"0"}]}`, string(d.Audit[0].Detail))
}

func TestOperatorsOnOneEventTakeTurns(t *testing.T) {
	db := testkit.Migrated(t)
	keyed(t, db, "a", "a1")
	park(t, db, "a1", "quarantined", true)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "select from millrace.outbox_parked where event_id = 'a1' for update")
	require.NoError(t, err)
	const operators = 8
	results := make(chan outbox.Change, operators)
	for n := range operators {
		o := newOperator(t, db, fmt.Sprint("operator ", n))
		go func() {
			changes, err := o.Discard(context.Background(), events("a1"))
			if err != nil {
				changes = []outbox.Change{{Err: err}}
			}
			results <- changes[0]
		}()
	}
	waitForLocks(t, db, operators)
	require.NoError(t, tx.Rollback())
	discarded := 0
	for range operators {
		if c := <-results; c.Err == nil {
			discarded++
		} else {
			require.ErrorIs(t, c.Err, outbox.ErrWrongState)
		}
	}
	require.Equal(t, 1, discarded)
	require.Equal(t, "discarded 4 r1", row(t, db, "a1"))
	require.Equal(t, 1, scanOne[int](t, db, "select count(*) from millrace.audit"))
	require.Equal(t, 2, controlVersion(t, db))
}

func waitForLocks(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return scanOne[int](t, db, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == n
	}, 20*time.Second, 5*time.Millisecond)
}

// An operation that waited for a relay must see what that did.
func TestOperatorThatComesTooLateIsTold(t *testing.T) {
	for name, op := range map[string]outbox.Operation{
		"by id":     events("a1"),
		"by filter": {Matching: outbox.ParkedFilter{State: "quarantined"}, Reason: "mended"},
	} {
		t.Run(name, func(t *testing.T) {
			db := testkit.Migrated(t)
			o := newOperator(t, db, "ann")
			keyed(t, db, "a", "a1")
			park(t, db, "a1", "quarantined", true)
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), "delete from millrace.outbox_parked")
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), `insert into millrace.outbox_receipt (shard, position, attempts, claim_version)
				select shard, position, 1, 1 from millrace.outbox`)
			require.NoError(t, err)
			done := make(chan []outbox.Change, 1)
			go func() {
				changes, _ := o.Discard(context.Background(), op)
				done <- changes
			}()
			waitForLocks(t, db, 1)
			require.NoError(t, tx.Commit())
			changes := <-done
			require.Len(t, changes, 1)
			require.ErrorIs(t, changes[0].Err, outbox.ErrNotParked)
			require.ErrorContains(t, changes[0].Err, "sent")
			require.Equal(t, 1, controlVersion(t, db))
			require.Zero(t, scanOne[int](t, db, "select count(*) from millrace.audit"))
		})
	}
}

func TestOperatorPausesAreOneForTheClusterAndEndOnce(t *testing.T) {
	db := testkit.Migrated(t)
	ann, bob := newOperator(t, db, "ann"), newOperator(t, db, "bob")
	for _, p := range []outbox.Pause{{Topic: "orders", Reason: "why"}, {AggregateType: "order", AggregateID: "a/b", Reason: "why"}} {
		require.ErrorIs(t, ann.Resume(t.Context(), p, false), outbox.ErrNotPaused)
		require.NoError(t, ann.Pause(t.Context(), p, false))
		require.ErrorIs(t, bob.Pause(t.Context(), p, false), outbox.ErrPaused)
		paused, err := bob.Paused(t.Context())
		require.NoError(t, err)
		require.Len(t, paused, 1)
		require.WithinDuration(t, time.Now(), paused[0].PausedAt, time.Minute)
		paused[0].PausedAt = time.Time{}
		p.Actor = "ann"
		require.Equal(t, p, paused[0])
		require.NoError(t, bob.Resume(t.Context(), p, false))
		require.ErrorIs(t, bob.Resume(t.Context(), p, false), outbox.ErrNotPaused)
	}
	for _, p := range []outbox.Pause{{}, {Topic: "a b"}, {Topic: "a", AggregateType: "b", AggregateID: "c"}, {AggregateType: "b"}, {AggregateID: "b"}} {
		require.Error(t, ann.Pause(t.Context(), p, false))
	}
}
