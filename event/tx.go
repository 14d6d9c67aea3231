package event

import (
	"context"
	"database/sql"

	"github.com/ThreeDotsLabs/watermill/message"
)

type txKey struct{}

// ContextWithTx returns a context that carries the transaction events are to be written in.
func ContextWithTx(ctx context.Context, tx *sql.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

// TxFromContext returns the transaction put there by ContextWithTx, InTx, outbox.InTx or middleware.Dedup.
func TxFromContext(ctx context.Context) (*sql.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(*sql.Tx)
	return tx, ok && tx != nil
}

// InTx gives the message ctx as its context, with the transaction in it, where a long-lived outbox publisher finds it, and
// returns the message. ctx governs the insert.
func InTx(ctx context.Context, msg *message.Message, tx *sql.Tx) *message.Message {
	msg.SetContext(ContextWithTx(ctx, tx))
	return msg
}
