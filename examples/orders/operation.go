package orders

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Kind is what an operation asks for.
type Kind string

// The kinds of operations.
const (
	Create Kind = "create"
	Pay    Kind = "pay"
	Ship   Kind = "ship"
	Cancel Kind = "cancel"
)

// Operation is one request to the order service, as a client sends it.
type Operation struct {
	// ID identifies the operation: one that is sent twice is applied once. It becomes the event_id.
	ID      string `json:"operation_id"`
	Kind    Kind   `json:"operation"`
	OrderID string `json:"order_id"`

	// ExpectedVersion is the version of the order the client has seen; 0 = whatever it is now.
	ExpectedVersion int64 `json:"expected_version,omitempty"`

	// For Create.
	Customer    string `json:"customer,omitempty"`
	SKU         string `json:"sku,omitempty"`
	Quantity    int64  `json:"quantity,omitempty"`
	AmountCents int64  `json:"amount_cents,omitempty"`
	Currency    string `json:"currency,omitempty"`

	// For Pay: what the card issuer is going to say.
	CardDeclined bool `json:"card_declined,omitempty"`
}

// Validate names every field that is missing or makes no sense.
func (o Operation) Validate() error {
	var errs []error
	check := func(ok bool, text string) {
		if !ok {
			errs = append(errs, errors.New(text))
		}
	}
	check(o.ID != "", "operation_id: missing")
	check(o.OrderID != "", "order_id: missing")
	check(o.ExpectedVersion >= 0, "expected_version: negative")
	switch o.Kind {
	case Create:
		check(o.SKU != "", "sku: missing")
		check(o.Quantity > 0, "quantity: not positive")
		check(o.AmountCents > 0, "amount_cents: not positive")
		check(o.Currency != "", "currency: missing")
	case Pay, Ship, Cancel:
	default:
		errs = append(errs, fmt.Errorf("operation: %q is none of create, pay, ship and cancel", o.Kind))
	}
	return errors.Join(errs...)
}

// ReadOperations reads one operation a line; empty lines are skipped. Unknown fields are errors. An error names its line.
func ReadOperations(r io.Reader) ([]Operation, error) {
	var operations []Operation
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		var o Operation
		if err := decoder.Decode(&o); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if decoder.More() {
			return nil, fmt.Errorf("line %d: more than one JSON value", n)
		}
		if err := o.Validate(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		operations = append(operations, o)
	}
	return operations, lines.Err()
}
