package orders

import (
	"encoding/json"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

// States of an order. Each is also the last part of the type of the event that says it was reached.
const (
	Created   = "created"
	Paid      = "paid"
	Shipped   = "shipped"
	Cancelled = "cancelled"
)

// Changed is the payload of every event on an order.
type Changed struct {
	OperationID string `json:"operation_id"`
	OrderID     string `json:"order_id"`
	Version     int64  `json:"version"`
	State       string `json:"state"`
	Customer    string `json:"customer"`
	AmountCents int64  `json:"amount_cents"`
	Currency    string `json:"currency"`

	// DueCents is by how much the change raises what the customer has to pay.
	DueCents int64 `json:"due_cents"`
}

// Message is the event: its id is the operation's, so that an operation sent twice can not make two.
func (c Changed) Message() (*message.Message, error) {
	payload, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("orders: %w", err)
	}
	return event.New("order."+c.State, payload,
		event.WithID(c.OperationID), event.Aggregate("order", c.OrderID, c.Version)), nil
}

// NotificationID is the event_id of the notification that the projection makes of the change, "" if it makes none.
func (c Changed) NotificationID() string {
	if c.State == Created {
		return ""
	}
	return "notification-" + c.OperationID
}
