package outbox

import (
	"encoding/json"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

// item is an event on its way through the relay.
type item struct {
	stored
	position int64
	late     bool
	lane     int // its number in the read that brought it
	size     int64
	delay    int64   // milliseconds until it may be sent; 0 = now
	parked   *parked // its parked row, if it has one

	shard    *shard
	mark     *mark // nil for an event that no read brought
	seq      uint64
	attempts int
	refused  error         // why the broker will never take it; taken up when its batches have ended
	receipt  event.Receipt // partition -1 = the publisher does not tell
}

// parked is what a relay knows of an event's parked row.
type parked struct {
	state    string
	blocks   bool
	attempts int
	revision int
	entry    int64
	topic    string // override; "" = none
	metadata []byte // override; nil = none
	version  int64  // of the control row when it came into memory
}

// States of parked rows.
const (
	stateScheduled   = "scheduled"
	stateRetrying    = "retrying"
	stateBlocked     = "blocked"
	stateQuarantined = "quarantined"
	stateDiscarded   = "discarded"
)

// place is where an event is: a position alone may be taken once in every shard.
type place struct {
	shard    int16
	position int64
}

func (i *item) place() place { return place{i.stored.shard, i.position} }

// orderKey is what events must stay in order under: topic and record key.
type orderKey struct{ topic, key string }

func (i *item) orderKey() orderKey { return orderKey{i.topic, i.partitionKey.String} }

// keyed says whether the event has a key. One without waits for nobody, and nobody waits for it.
func (i *item) keyed() bool { return i.partitionKey.Valid }

// destination is the topic the event goes to.
func (i *item) destination() string {
	if i.parked != nil && i.parked.topic != "" {
		return i.parked.topic
	}
	return i.topic
}

// outgoing builds the message to send: as it was published, changed by what an operator has overridden.
func (i *item) outgoing() (*message.Message, error) {
	msg, err := i.message()
	if err != nil || i.parked == nil || i.parked.metadata == nil {
		return msg, err
	}
	var changes map[string]*string
	if err := json.Unmarshal(i.parked.metadata, &changes); err != nil {
		return nil, fmt.Errorf("metadata override: %w", err)
	}
	for key, value := range changes {
		if value == nil {
			delete(msg.Metadata, key)
		} else {
			msg.Metadata[key] = *value
		}
	}
	return msg, nil
}
