// Package inbox makes each event take effect once per consumer, and keeps the events a consumer gave up on.
//
// It owns the table inbox: one row for each (consumer, event_id), inserted first in every transaction that ends a
// delivery, dead-lettering included. Whoever finds the row there already acknowledges and does nothing.
//
//	store, err := inbox.NewStore(db, inbox.Config{})
//	outcome, err := store.Once(ctx, event, inbox.Limits{}, func(ctx context.Context, tx *sql.Tx) error {
//		return projection.Apply(ctx, tx, order) // commits together with the row, or not at all
//	})
//
// middleware.Dedup and middleware.DeadLetter are this package on a Watermill router. Business tables must live in the
// database of the inbox: for any other place there is only idempotency of the effect itself, keyed by consumer and event_id.
package inbox
