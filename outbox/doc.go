// Package outbox owns the outbox tables: events are written in the caller's own transaction, read under a lease, and
// receipted when the broker has acknowledged them.
//
// Writing is a Watermill publisher on the business transaction, so that an event exists if and only if it committed:
//
//	err := outbox.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
//		// business writes on tx
//		return publisher.Publish("orders", event.InTx(ctx, msg, tx)) // a ContextPublisher, made once
//	})
//
// Reading is Subscriber, a Watermill subscriber for the forwarder. No row of the outbox is ever updated. The tables are made
// by package migrations and by nothing else; everything here works behind a transaction-mode pooler.
package outbox
