package event

import (
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
)

// MaxIDLength is the longest event_id in bytes.
const MaxIDLength = 255

// ErrInvalid is in the chain of every error that Parse and ValidateID return.
var ErrInvalid = errors.New("invalid event")

// Event is the typed view of a message's metadata.
type Event struct {
	ID      string
	Type    string
	Version int    // schema version of the payload, at least 1
	Kind    string // KindFact or KindCommand

	// The aggregate, if the event belongs to one: AggregateType is "" otherwise.
	AggregateType    string
	AggregateID      string
	AggregateVersion int64

	// PartitionKey is the Kafka record key; HasPartitionKey tells a zero-length key from none.
	PartitionKey    string
	HasPartitionKey bool

	CausationID   string
	CorrelationID string
	Tenant        string

	// DeliverAt is when the event may be sent; zero = at once.
	DeliverAt time.Time
}

// Attribute sets one property of a new event.
type Attribute func(*message.Message)

// New makes an event with a fresh UUIDv7 as its event_id and message UUID, kind fact, schema version 1.
// A nil payload is a tombstone and stays distinct from an empty one all the way to Kafka.
func New(eventType string, payload []byte, attributes ...Attribute) *message.Message {
	id := uuid.Must(uuid.NewV7()).String()
	msg := message.NewMessage(id, payload)
	msg.Metadata[IDKey] = id
	msg.Metadata[TypeKey] = eventType
	msg.Metadata[VersionKey] = "1"
	msg.Metadata[KindKey] = KindFact
	for _, set := range attributes {
		set(msg)
	}
	return msg
}

// Aggregate names the aggregate and the version of it that the event made. The aggregate id becomes the partition key
// unless PartitionKey sets another.
func Aggregate(aggregateType, id string, version int64) Attribute {
	return func(msg *message.Message) {
		msg.Metadata[AggregateTypeKey] = aggregateType
		msg.Metadata[AggregateIDKey] = id
		msg.Metadata[AggregateVersionKey] = strconv.FormatInt(version, 10)
	}
}

// WithID replaces the generated event_id, for callers whose operation already has a stable identity.
func WithID(id string) Attribute {
	return func(msg *message.Message) {
		msg.UUID = id
		msg.Metadata[IDKey] = id
	}
}

// SchemaVersion sets the version of the payload's schema.
func SchemaVersion(version int) Attribute { return Meta(VersionKey, strconv.Itoa(version)) }

// Command marks the event as a command.
func Command() Attribute { return Meta(KindKey, KindCommand) }

// PartitionKey sets the Kafka record key; "" is a zero-length key.
func PartitionKey(key string) Attribute { return Meta(PartitionKeyKey, key) }

// CausedBy names the event this one follows from. A compensation is a new event caused by the one it compensates.
func CausedBy(eventID string) Attribute { return Meta(CausationIDKey, eventID) }

// Tenant names the tenant the event belongs to.
func Tenant(tenant string) Attribute { return Meta(TenantKey, tenant) }

// DeliverAt schedules the event: it is sent at that time, by the database's clock, or as soon after as it can be. Until then
// it is outside the order of its aggregate, and later events do not wait for it; then it takes the next place.
func DeliverAt(at time.Time) Attribute { return Meta(DeliverAtKey, at.UTC().Format(time.RFC3339Nano)) }

// Meta sets any metadata key.
func Meta(key, value string) Attribute {
	return func(msg *message.Message) { msg.Metadata[key] = value }
}

// Parse reads the typed view of a message. Every bad field is named in the error, which has ErrInvalid in its chain.
// A missing event_id is such an error: it is never read as the id "".
func Parse(msg *message.Message) (Event, error) {
	m := msg.Metadata
	e := Event{
		ID:            m[IDKey],
		Type:          m[TypeKey],
		Version:       1,
		Kind:          KindFact,
		AggregateType: m[AggregateTypeKey],
		AggregateID:   m[AggregateIDKey],
		CausationID:   m[CausationIDKey],
		CorrelationID: m[CorrelationIDKey],
		Tenant:        m[TenantKey],
	}
	var errs []error
	if err := ValidateID(e.ID); err != nil {
		errs = append(errs, err)
	}
	if v, ok := m[VersionKey]; ok {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 1<<31-1 {
			errs = append(errs, fmt.Errorf("%w: %s %q is not a positive 32-bit integer", ErrInvalid, VersionKey, v))
		}
		e.Version = n
	}
	if k, ok := m[KindKey]; ok {
		e.Kind = k
		if k != KindFact && k != KindCommand {
			errs = append(errs, fmt.Errorf("%w: %s %q is neither %q nor %q", ErrInvalid, KindKey, k, KindFact, KindCommand))
		}
	}
	version, hasVersion := m[AggregateVersionKey]
	switch {
	case e.AggregateType == "" && e.AggregateID == "" && !hasVersion:
	case e.AggregateType == "" || e.AggregateID == "" || !hasVersion:
		errs = append(errs, fmt.Errorf("%w: %s, %s and %s go together: set all three or none",
			ErrInvalid, AggregateTypeKey, AggregateIDKey, AggregateVersionKey))
	default:
		n, err := strconv.ParseInt(version, 10, 64)
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("%w: %s %q is not a positive integer", ErrInvalid, AggregateVersionKey, version))
		}
		e.AggregateVersion = n
	}
	if at, ok := m[DeliverAtKey]; ok {
		var err error
		if e.DeliverAt, err = time.Parse(time.RFC3339, at); err != nil || e.DeliverAt.Year() < 1 || e.DeliverAt.Year() > 9999 {
			errs = append(errs, fmt.Errorf("%w: %s %q is not a time in RFC 3339, such as 2030-01-31T12:00:00Z", ErrInvalid, DeliverAtKey, at))
		}
	}
	e.PartitionKey, e.HasPartitionKey = Key(msg)
	return e, errors.Join(errs...)
}

// Key returns the Kafka record key of an event: its partition key, else its aggregate id, else none.
func Key(msg *message.Message) (key string, ok bool) {
	if k, ok := msg.Metadata[PartitionKeyKey]; ok {
		return k, true
	}
	if k := msg.Metadata[AggregateIDKey]; k != "" {
		return k, true
	}
	return "", false
}

// ValidateID says whether an event_id can be kept unchanged everywhere it has to go: at most MaxIDLength bytes of valid
// UTF-8 without control characters.
func ValidateID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: missing %s", ErrInvalid, IDKey)
	case len(id) > MaxIDLength:
		return fmt.Errorf("%w: %s is %d bytes long, the limit is %d", ErrInvalid, IDKey, len(id), MaxIDLength)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: %s is not valid UTF-8", ErrInvalid, IDKey)
	}
	for _, r := range id {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: %s contains the control character %U", ErrInvalid, IDKey, r)
		}
	}
	return nil
}
