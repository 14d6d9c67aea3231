package inbox

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Header names that JSON cannot carry are stored as this prefix and their bytes in base64.
const binaryNamePrefix = "base64:"

type binaryValue struct {
	Base64 *[]byte `json:"base64"`
}

// encodeHeaders makes JSON that PostgreSQL can store as jsonb and decodeHeaders turns back into exactly the same bytes.
func encodeHeaders(headers map[string]string) ([]byte, error) {
	object := make(map[string]any, len(headers))
	for name, value := range headers {
		if !isText(name) || strings.HasPrefix(name, binaryNamePrefix) {
			name = binaryNamePrefix + base64.StdEncoding.EncodeToString([]byte(name))
		}
		if isText(value) {
			object[name] = value
			continue
		}
		b := []byte(value)
		object[name] = binaryValue{Base64: &b}
	}
	return json.Marshal(object)
}

func decodeHeaders(stored []byte) (map[string]string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(stored, &object); err != nil {
		return nil, fmt.Errorf("decode headers: %w", err)
	}
	headers := make(map[string]string, len(object))
	for name, raw := range object {
		if encoded, ok := strings.CutPrefix(name, binaryNamePrefix); ok {
			b, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return nil, fmt.Errorf("decode header name: %w", err)
			}
			name = string(b)
		}
		value, err := decodeHeader(raw)
		if err != nil {
			return nil, fmt.Errorf("decode header %q: %w", name, err)
		}
		headers[name] = value
	}
	return headers, nil
}

func decodeHeader(raw json.RawMessage) (string, error) {
	var value *string
	if err := json.Unmarshal(raw, &value); err == nil && value != nil {
		return *value, nil
	}
	var binary binaryValue
	if err := json.Unmarshal(raw, &binary); err != nil {
		return "", err
	}
	if binary.Base64 == nil {
		return "", errors.New(`neither text nor {"base64": ...}`)
	}
	return string(*binary.Base64), nil
}

// isText says whether PostgreSQL's text and jsonb can hold s unchanged.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
