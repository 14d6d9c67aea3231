package inbox

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-go/millrace/event"
)

// MaxConsumerLength is the longest consumer name in bytes.
const MaxConsumerLength = 100

// Event is one event as it reached one consumer.
type Event struct {
	// Consumer names whose effect this is: each consumer handles each event once. At most MaxConsumerLength bytes.
	Consumer string
	// ID is the event's identity within the consumer, usually its event_id.
	ID string
	// Delivery is where it came from. Partition, Offset and Timestamp count only if HasDelivery, Topic always.
	Delivery    event.Delivery
	HasDelivery bool

	Payload []byte
	Headers map[string]string

	// Attempts is how many times the consumer has tried so far, default 1.
	Attempts int
	// Replayed says that Subscriber emitted it: its row is there, parked.
	Replayed bool
}

// Validate names every field the inbox cannot store.
func (e Event) Validate() error {
	var errs []error
	if err := ValidateConsumer(e.Consumer); err != nil {
		errs = append(errs, err)
	}
	if err := event.ValidateID(e.ID); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ValidateConsumer says whether the name can be a consumer's. The error has event.ErrInvalid in its chain.
func ValidateConsumer(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the consumer has no name", event.ErrInvalid)
	case len(name) > MaxConsumerLength:
		return fmt.Errorf("%w: consumer %q is %d bytes long, the limit is %d", event.ErrInvalid, name, len(name), MaxConsumerLength)
	case !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%w: consumer %q is not valid UTF-8 without control characters", event.ErrInvalid, name)
	}
	return nil
}

func (e Event) attempts() int { return max(e.Attempts, 1) }

// coordinates are the columns topic, kafka_partition, kafka_offset and record_time.
func (e Event) coordinates() []any {
	if !e.HasDelivery {
		return []any{e.Delivery.Topic, nil, nil, nil}
	}
	return []any{e.Delivery.Topic, e.Delivery.Partition, e.Delivery.Offset, nullTime(e.Delivery.Timestamp)}
}

func nullTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}
