package middleware

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
)

const (
	maxAddedText   = 2 << 10 // of a record's error texts together
	minReason      = 64      // what is kept of the reason however full the record is
	maxBase64Key   = 256     // longer keys are there as the record key alone
	recordOverhead = 128     // of a batch with one record, besides its parts
	headerOverhead = 10
	maxColumn      = 255 // of event_type and tenant in the outbox

	uuidHeader = "_watermill_message_uuid" // of Watermill's Kafka marshaler, which adds it by itself
)

// record makes the message that tells of a death.
func (d DeadLetter) record(original *message.Message, e inbox.Event, death inbox.Death, deaths int) *message.Message {
	id := deadLetterID(e.Consumer, e.ID, deaths)
	record := message.NewMessage(id, original.Payload)
	m := record.Metadata
	describeOriginal(m, original.Metadata)
	m[event.IDKey] = id
	m[event.OriginalIDKey] = e.ID
	if own := original.Metadata[event.IDKey]; own != "" && isText(own) {
		m[event.OriginalIDKey] = own
	}

	ctx := original.Context()
	m[TopicPoisonedKey] = e.Delivery.Topic
	m[HandlerPoisonedKey] = message.HandlerNameFromCtx(ctx)
	m[SubscriberPoisonedKey] = message.SubscriberNameFromCtx(ctx)
	m[ConsumerPoisonedKey] = e.Consumer
	m[ErrorClassPoisonedKey] = death.Class
	m[AttemptsPoisonedKey] = strconv.Itoa(max(e.Attempts, 1))
	if e.HasDelivery {
		m[PartitionPoisonedKey] = strconv.FormatInt(int64(e.Delivery.Partition), 10)
		m[OffsetPoisonedKey] = strconv.FormatInt(e.Delivery.Offset, 10)
	}
	if key, ok := recordKey(original, e); ok {
		storable := isText(key)
		if storable {
			m[event.PartitionKeyKey] = key
		}
		if !storable || len(key) <= maxBase64Key {
			m[KeyPoisonedKey] = base64.StdEncoding.EncodeToString([]byte(key))
		}
	}
	d.addTexts(record, death)
	return record
}

// deadLetterID is the same for every attempt to write one death.
func deadLetterID(consumer, eventID string, deaths int) string {
	id := fmt.Sprintf("dlq:%s:%s:%d", consumer, eventID, deaths)
	if len(id) > event.MaxIDLength {
		id = fmt.Sprintf("dlq:%s:%s:%d", consumer, digest(eventID), deaths)
	}
	return id
}

func recordKey(original *message.Message, e inbox.Event) (string, bool) {
	if e.HasDelivery {
		return string(e.Delivery.Key), e.Delivery.Key != nil
	}
	return event.Key(original)
}

// describeOriginal copies the original's metadata, out of the way where the dead letter has its own, and what is not text into one
// header that is.
func describeOriginal(to, original message.Metadata) {
	binaries := map[string][]byte{}
	for name, value := range original {
		switch name {
		case event.VersionKey, event.KindKey, event.AggregateTypeKey, event.AggregateIDKey, event.AggregateVersionKey:
			name = originalPrefix + name
		case event.TypeKey, event.TenantKey:
			if len(value) > maxColumn {
				name = originalPrefix + name
			}
		case event.IDKey, event.OriginalIDKey, event.PartitionKeyKey:
			continue // the record has its own
		}
		if name != "" && name != uuidHeader && isText(name) && isText(value) {
			to[name] = value
		} else {
			binaries[escape(name, maxErrorText)] = []byte(value)
		}
	}
	if len(binaries) > 0 {
		encoded, _ := json.Marshal(binaries) // a map of strings to bytes always encodes
		to[HeadersPoisonedKey] = string(encoded)
	}
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// addTexts adds as much of the error texts as there is room for.
func (d DeadLetter) addTexts(record *message.Message, death inbox.Death) {
	m := record.Metadata
	size := len(record.Payload) + len(m[event.PartitionKeyKey]) + recordOverhead
	for name, value := range m {
		size += len(name) + len(value) + headerOverhead
	}
	room := min(maxAddedText, d.MaxBytes-size)
	m[ReasonPoisonedKey] = escape(death.LastError, max(room/2, minReason))
	if room/4 < minReason {
		return
	}
	if death.FirstError != death.LastError {
		m[FirstErrorPoisonedKey] = escape(death.FirstError, room/4)
	}
	if death.Stack != "" {
		m[StackPoisonedKey] = escape(death.Stack, room/4)
	}
}
