package outbox

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

const (
	columnCount = 13

	// maxColumnLength bounds the texts that are indexed or meant for people, in bytes.
	maxColumnLength = 255

	// uuidHeader is the header in which Watermill's Kafka marshaler sends the message UUID.
	uuidHeader = "_watermill_message_uuid"

	// batchOverhead and headerOverhead are upper bounds of what Kafka adds to a lone record and to each header, in bytes.
	batchOverhead  = 100
	headerOverhead = 10

	// maxStatementBytes keeps statements small enough for any server and proxy.
	maxStatementBytes = 8 << 20
)

//go:embed insert.sql
var insertSQL string

// insertion is a list of checked events on their way into the table.
type insertion struct {
	rows  []stored
	sizes []int // as Kafka records
}

// newInsertion checks the events, so that nothing a caller hands over can fail in SQL and spoil the transaction. The error
// names everything that is wrong and is permanent.
func newInsertion(topic string, messages []*message.Message, maxRecordBytes int) (insertion, error) {
	in := insertion{rows: make([]stored, 0, len(messages)), sizes: make([]int, 0, len(messages))}
	errs := []error{event.ValidateTopic(topic)}
	first := make(map[string]int, len(messages))
	for i, msg := range messages {
		if msg == nil {
			errs = append(errs, fmt.Errorf("%w: message %d is nil", event.ErrInvalid, i))
			continue
		}
		row, size, err := check(topic, msg, maxRecordBytes)
		if err != nil {
			errs = append(errs, fmt.Errorf("message %d (%s %q): %w", i, event.IDKey, clip(row.eventID), err))
			continue
		}
		if earlier, ok := first[row.eventID]; ok {
			errs = append(errs, fmt.Errorf("%w: messages %d and %d have the same %s %q", event.ErrInvalid, earlier, i, event.IDKey, row.eventID))
			continue
		}
		first[row.eventID] = i
		in.rows, in.sizes = append(in.rows, row), append(in.sizes, size)
	}
	return in, event.Permanent(errors.Join(errs...))
}

func check(topic string, msg *message.Message, maxRecordBytes int) (stored, int, error) {
	if _, ok := msg.Metadata[event.IDKey]; !ok {
		identified := message.NewMessage(msg.UUID, msg.Payload)
		for key, value := range msg.Metadata {
			identified.Metadata[key] = value
		}
		identified.Metadata[event.IDKey] = msg.UUID
		msg = identified
	}
	e, err := event.Parse(msg)
	errs := []error{err}
	invalid := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{event.ErrInvalid}, args...)...))
	}
	size := batchOverhead + len(e.PartitionKey) + len(msg.Payload) + headerOverhead + len(uuidHeader) + len(e.ID)
	for key, value := range msg.Metadata {
		size += headerOverhead + len(key) + len(value)
		switch {
		case key == "":
			invalid("metadata has an empty key")
		case key == uuidHeader:
			invalid("metadata key %q is reserved by Watermill", key)
		case !storable(key):
			invalid("metadata key %q is not valid UTF-8 or contains U+0000", clip(key))
		case !storable(value) && key != event.IDKey: // of the id, Parse has said so
			invalid("metadata %q is not valid UTF-8 or contains U+0000", clip(key))
		}
	}
	if size > maxRecordBytes {
		invalid("the record would be %d bytes, the limit is %d", size, maxRecordBytes)
	}
	row, err := newStored(topic, msg, e)
	errs = append(errs, err)
	for _, column := range []struct{ name, value string }{
		{event.TypeKey, row.eventType},
		{event.AggregateTypeKey, row.aggregateType},
		{event.AggregateIDKey, row.aggregateID},
		{event.TenantKey, row.tenant},
	} {
		if len(column.value) > maxColumnLength {
			invalid("%s is %d bytes long, the limit is %d", column.name, len(column.value), maxColumnLength)
		}
	}
	return row, size, errors.Join(errs...)
}

// storable says whether PostgreSQL's text and jsonb take the string and give it back unchanged.
func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// clip keeps errors readable.
func clip(s string) string { return s[:min(len(s), 2*maxColumnLength)] }

// cut returns the next part that fits one statement, and the rest.
func (in insertion) cut(maxRows int) (part, rest insertion) {
	n, bytes := 0, 0
	for n < len(in.rows) && n < maxRows && (n == 0 || bytes+in.sizes[n] <= maxStatementBytes) {
		bytes += in.sizes[n]
		n++
	}
	return insertion{in.rows[:n], in.sizes[:n]}, insertion{in.rows[n:], in.sizes[n:]}
}

// query builds the statement.
func (in insertion) query(schema string) wsql.Query {
	text := []byte(loadSQL(insertSQL, schema))
	args := make([]any, 0, columnCount*len(in.rows))
	for i := range in.rows {
		s := &in.rows[i]
		for column := range columnCount {
			separator := ", $"
			if column == 0 {
				separator = "($"
			}
			text = strconv.AppendInt(append(text, separator...), int64(columnCount*i+column+1), 10)
		}
		text = append(text, "),"...)
		args = append(args, s.eventID, s.topic, s.kind, orNull(s.aggregateType), orNull(s.aggregateID), orNull(s.aggregateVersion),
			s.eventType, s.eventVersion, orNull(s.tenant), s.partitionKey, bytesOrNull(s.payload), s.metadataText(), orNull(s.deliverAt))
	}
	return wsql.Query{Query: strings.TrimSuffix(string(text), ","), Args: args}
}

// orNull is null for the zero value.
func orNull[T comparable](v T) any {
	if v == *new(T) {
		return nil
	}
	return v
}

// bytesOrNull is null for nil only: an empty payload is a payload.
func bytesOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func (s *stored) metadataText() string {
	if s.metadata == nil {
		return "{}"
	}
	return string(s.metadata)
}
