package handlers_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/handlers"
)

// A body that does not decode is named by type and place, never by content.
func ExampleJSON() {
	type OrderPaid struct {
		Order  string `json:"order"`
		Amount int64  `json:"amount"`
	}
	handle := handlers.JSON(func(ctx context.Context, tx *sql.Tx, e OrderPaid) error {
		fmt.Println("paid:", e.Order, e.Amount) // and a write through tx
		return nil
	})

	tx := &sql.Tx{} // middleware.Dedup puts a real one there
	fmt.Println(handle(event.InTx(context.Background(), event.New("order.paid", []byte(`{"order":"4711","amount":12}`)), tx)))
	err := handle(event.InTx(context.Background(), event.New("order.paid", []byte(`{"order":"4711","amount":"twelve"}`)), tx))
	fmt.Println(err, event.IsPermanent(err))
	// Output:
	// paid: 4711 12
	// <nil>
	// handlers: payload cannot be decoded into handlers_test.OrderPaid: field "amount" does not fit int64, at byte 33 true
}
