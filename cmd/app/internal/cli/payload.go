package cli

import (
	"encoding/json"
	"unicode/utf8"
)

// payloadJSON shows a payload or header in JSON: as it is where it is JSON, else in base64. Both nil = a tombstone.
type payloadJSON struct {
	Payload       json.RawMessage `json:"payload"`
	PayloadBase64 any             `json:"payload_base64,omitempty"` // []byte; of no bytes too
	Tombstone     bool            `json:"tombstone,omitempty"`
}

func showPayload(value []byte) payloadJSON {
	switch {
	case value == nil:
		return payloadJSON{Tombstone: true}
	case json.Valid(value) && utf8.Valid(value):
		return payloadJSON{Payload: value}
	default:
		return payloadJSON{PayloadBase64: append([]byte{}, value...)}
	}
}

// textOrBase64 is text where the bytes are that, else {"base64": ...}, nil for nil.
func textOrBase64(value []byte) any {
	switch {
	case value == nil:
		return nil
	case utf8.Valid(value):
		return string(value)
	default:
		return map[string][]byte{"base64": value}
	}
}
