package orders

import (
	"context"
	"database/sql"
)

// NotificationConsumer is the consumer name of Notify.
const NotificationConsumer = "notification-ledger"

// Notification is the payload of the event that asks for a customer to be told something.
type Notification struct {
	ID       string `json:"id"`
	OrderID  string `json:"order_id"`
	Version  int64  `json:"version"` // of the order
	Customer string `json:"customer"`
	Text     string `json:"text"`
}

// Notify enters the notification into the ledger, from where it is sent. Use it with handlers.JSON.
func Notify(ctx context.Context, tx *sql.Tx, n Notification) error {
	return noteEffect(ctx, tx, NotificationConsumer, n.ID, n.OrderID, n.Version)
}
