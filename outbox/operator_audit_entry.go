package outbox

import (
	"encoding/json"
	"time"
)

// AuditEntry is something an operator did.
type AuditEntry struct {
	At     time.Time       `json:"at"`
	Actor  string          `json:"actor"`
	Action string          `json:"action"`
	Reason string          `json:"reason"`
	Detail json.RawMessage `json:"detail"`
}

// scanAuditEntry reads a row of operator_audit_of.sql.
func scanAuditEntry(scan scanner) (a AuditEntry, err error) {
	var detail string
	err = scan(&a.At, &a.Actor, &a.Action, &a.Reason, &detail)
	a.At, a.Detail = a.At.UTC(), json.RawMessage(detail)
	return a, err
}
