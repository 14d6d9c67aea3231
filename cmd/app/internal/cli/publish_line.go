package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/millrace-go/millrace/event"
)

// maxLine is the longest line that is looked at; no broker's default takes a record of this size.
const maxLine = 16 << 20

// lineIDs is the name space of the event_ids that are derived.
var lineIDs = uuid.MustParse("5d3c0f44-6f3e-5c1e-9a39-2f7d4f5f3a10")

var errTooLong = fmt.Errorf("longer than %d bytes", maxLine)

// lines reads a file line by line, whatever is in it.
type lines struct {
	r *bufio.Reader
	n int // of the line that was read last, from 1
}

// next returns the next line that is not empty. io.EOF at the end; errTooLong for one line only.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

func (l *lines) line() ([]byte, error) {
	l.n++
	var line []byte
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			tooLong = true
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0 && !tooLong):
			return nil, err
		case tooLong:
			return nil, errTooLong
		default:
			return line, nil
		}
	}
}

// lineFields are the fields of a line, in the order they are documented.
var lineFields = map[string]string{
	"event_id": event.IDKey, "aggregate_type": event.AggregateTypeKey, "aggregate_id": event.AggregateIDKey,
	"aggregate_version": event.AggregateVersionKey, "event_type": event.TypeKey, "event_version": event.VersionKey,
	"deliver_at": event.DeliverAtKey,
}

// parseLine makes the event of line n. Every name is taken literally, and only once; the payload's bytes stay as they are.
func parseLine(topic string, n int, line []byte) (*message.Message, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("not UTF-8")
	}
	fields, err := object(line)
	if err != nil {
		return nil, err
	}
	payload, given := fields["payload"]
	if bytes.Equal(payload, []byte("null")) {
		payload = nil
	}
	id := uuid.NewSHA1(lineIDs, fmt.Appendf(nil, "%s\x00%d\x00%s", topic, n, line)).String()
	msg := event.New("", []byte(payload), event.WithID(id))
	delete(msg.Metadata, event.TypeKey)
	if payload == nil {
		msg.Payload = nil
	}
	var errs []error
	if !given {
		errs = append(errs, errors.New("payload: missing; null is a tombstone"))
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch name {
		case "payload":
		case "metadata":
			errs = append(errs, addMetadata(msg, value))
		case "aggregate_version", "event_version":
			number, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil || number < 1 {
				errs = append(errs, fmt.Errorf("%s: not a positive whole number", name))
				continue
			}
			msg.Metadata.Set(lineFields[name], strconv.FormatInt(number, 10))
		default:
			key, known := lineFields[name]
			var text string
			switch {
			case !known:
				errs = append(errs, fmt.Errorf("unknown field %q", name))
			case json.Unmarshal(value, &text) != nil || value[0] != '"':
				errs = append(errs, fmt.Errorf("%s: not a text", name))
			case loneSurrogate(value):
				errs = append(errs, fmt.Errorf("%s: escapes half a character (a lone surrogate)", name))
			default:
				msg.Metadata.Set(key, text)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	msg.UUID = msg.Metadata.Get(event.IDKey)
	_, err = event.Parse(msg)
	return msg, err
}

func addMetadata(msg *message.Message, value json.RawMessage) error {
	fields, err := object(value)
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	if loneSurrogate(value) {
		return errors.New("metadata: escapes half a character (a lone surrogate)")
	}
	for key, value := range fields {
		var text string
		if json.Unmarshal(value, &text) != nil || value[0] != '"' {
			return fmt.Errorf("metadata.%s: not a text", key)
		}
		if _, reserved := lineFields[key]; reserved {
			return fmt.Errorf("metadata.%s: has a field of its own", key)
		}
		msg.Metadata.Set(key, text)
	}
	return nil
}

// object splits a JSON object into its fields, with their bytes as they are. Unlike json.Unmarshal it tells upper from lower
// case and refuses a name that is there twice.
func object(text []byte) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	fields := map[string]json.RawMessage{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		name, _ := token.(string)
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("field %q is there twice", name)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		fields[name] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return fields, nil
}
