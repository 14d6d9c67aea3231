package outbox

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

// nameKey is where Watermill's cqrs marshalers put the name of an event.
const nameKey = "name"

// stored is one row of the outbox. An event's metadata is what its columns spell, changed by the column metadata, a JSON
// object: a string there adds or replaces a key, null removes one. So a key has a place in one of them only, yet what was
// published comes back to the byte, also where a column cannot tell "absent" from its default or "007" from 7.
//
// The message UUID is not kept: it comes back as the event_id.
type stored struct {
	shard            int16
	eventID          string
	topic            string
	kind             string
	aggregateType    string // "", "" and 0 = null: no aggregate
	aggregateID      string
	aggregateVersion int64
	eventType        string
	eventVersion     int
	tenant           string         // "" = null
	partitionKey     sql.NullString // the record key
	payload          []byte         // nil = null: a tombstone
	metadata         []byte         // nil or {} = the columns say it all
	deliverAt        time.Time      // zero = null: at once; the key itself is in metadata, as it was spelt
	createdAt        time.Time
}

// newStored splits an event into its columns. e is the parsed view of msg.
func newStored(topic string, msg *message.Message, e event.Event) (stored, error) {
	s := stored{
		eventID:          e.ID,
		topic:            topic,
		kind:             e.Kind,
		aggregateType:    e.AggregateType,
		aggregateID:      e.AggregateID,
		aggregateVersion: e.AggregateVersion,
		eventType:        e.Type,
		eventVersion:     e.Version,
		tenant:           e.Tenant,
		partitionKey:     sql.NullString{String: e.PartitionKey, Valid: e.HasPartitionKey},
		payload:          msg.Payload,
		deliverAt:        e.DeliverAt,
	}
	if s.eventType == "" {
		s.eventType = msg.Metadata[nameKey]
	}
	spelt := make(message.Metadata, len(msg.Metadata))
	s.spell(spelt)
	changes := map[string]*string{}
	for key, value := range msg.Metadata {
		if there, ok := spelt[key]; !ok || there != value {
			changes[key] = &value
		}
	}
	for key := range spelt {
		if _, ok := msg.Metadata[key]; !ok && key != event.IDKey {
			changes[key] = nil
		}
	}
	if len(changes) == 0 {
		return s, nil
	}
	var err error
	s.metadata, err = json.Marshal(changes)
	return s, err
}

// message joins the columns into the event that was published. Relays do this for every event.
func (s *stored) message() (*message.Message, error) {
	msg := message.NewMessage(s.eventID, s.payload)
	changed := len(s.metadata) > len("{}")
	if changed {
		msg.Metadata = make(message.Metadata, 16) // one allocation instead of growing
	}
	s.spell(msg.Metadata)
	if !changed {
		return msg, nil
	}
	return msg, change(msg.Metadata, string(s.metadata))
}

// change applies the column metadata.
func change(metadata message.Metadata, object string) error {
	if plainChange(metadata, object) {
		return nil
	}
	var changes map[string]*string
	if err := json.Unmarshal([]byte(object), &changes); err != nil {
		return fmt.Errorf("column metadata: %w", err)
	}
	for key, value := range changes {
		if value == nil {
			delete(metadata, key)
		} else {
			metadata[key] = *value
		}
	}
	return nil
}

// plainChange is change for an object without escapes, where a string ends at the next quote: many times faster.
// It gives up, with a part of the changes applied, on everything else.
func plainChange(metadata message.Metadata, object string) bool {
	if strings.IndexByte(object, '\\') >= 0 {
		return false
	}
	for {
		_, rest, more := strings.Cut(object, `"`)
		if !more {
			return true
		}
		key, rest, _ := strings.Cut(rest, `"`)
		rest = strings.TrimLeft(rest, ": ")
		if after, null := strings.CutPrefix(rest, "null"); null {
			delete(metadata, key)
			object = after
			continue
		}
		quoted, text := strings.CutPrefix(rest, `"`)
		if !text {
			return false
		}
		metadata[key], object, _ = strings.Cut(quoted, `"`)
	}
}

// spell writes the metadata the columns stand for.
func (s *stored) spell(metadata message.Metadata) {
	metadata[event.IDKey] = s.eventID
	metadata[event.KindKey] = s.kind
	metadata[event.VersionKey] = strconv.Itoa(s.eventVersion)
	if s.eventType != "" {
		metadata[event.TypeKey] = s.eventType
	}
	if s.aggregateType != "" {
		metadata[event.AggregateTypeKey] = s.aggregateType
		metadata[event.AggregateIDKey] = s.aggregateID
		metadata[event.AggregateVersionKey] = strconv.FormatInt(s.aggregateVersion, 10)
	}
	if s.tenant != "" {
		metadata[event.TenantKey] = s.tenant
	}
	// The aggregate id is the key of an event that was given none.
	if s.partitionKey.Valid && s.partitionKey.String != s.aggregateID {
		metadata[event.PartitionKeyKey] = s.partitionKey.String
	}
}
