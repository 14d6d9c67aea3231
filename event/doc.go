// Package event says what an event is: the metadata keys that carry its identity, the transaction it is written in,
// the delivery it arrived by, and the verdict of a failed handler.
//
// It is the leaf the other library packages depend on. An event is an ordinary *message.Message; everything below only reads
// and writes its metadata and context.
//
//	msg := event.New("order.paid", payload, event.Aggregate("order", "4711", 3))
//	err := publisher.Publish("orders", event.InTx(ctx, msg, tx))
package event
