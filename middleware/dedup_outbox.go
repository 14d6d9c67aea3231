package middleware

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
)

var (
	// ErrNoOutbox says that a handler returned messages and Dedup has no publisher for them. It is permanent.
	ErrNoOutbox = errors.New("the handler returned messages: set Dedup.Outbox to publish them in its transaction")
	// ErrNoOutboxTopic says that a handler returned messages and there is no topic for them. It is permanent.
	ErrNoOutboxTopic = errors.New("the handler returned messages: set Dedup.OutboxTopic or add the handler with a publish topic")
)

// settleTimeout bounds what is written after the handler has ended, even while shutting down.
const settleTimeout = 10 * time.Second

// producedIDs is the namespace of the event_ids derived for returned messages.
var producedIDs = uuid.MustParse("5a0fb38c-9d0c-5f1e-8ac5-3d1f0b6ad5f3")

// publish writes copies of the returned messages to the outbox, in the transaction that ctx carries.
func (d Dedup) publish(ctx context.Context, e inbox.Event, metadata message.Metadata, produced []*message.Message) error {
	if len(produced) == 0 {
		return nil
	}
	topic := d.OutboxTopic
	if topic == "" {
		topic = message.PublishTopicFromCtx(ctx)
	}
	switch {
	case d.Outbox == nil:
		return event.Permanent(fmt.Errorf("middleware: %w", ErrNoOutbox))
	case topic == "":
		return event.Permanent(fmt.Errorf("middleware: %w", ErrNoOutboxTopic))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	copies := make([]*message.Message, len(produced))
	for i, msg := range produced {
		copies[i] = follow(e, metadata, msg, i)
		copies[i].SetContext(ctx)
	}
	if err := d.Outbox.Publish(topic, copies...); err != nil {
		return fmt.Errorf("middleware: publish returned messages: %w", err)
	}
	return nil
}

// follow makes msg an event that follows from the incoming one.
func follow(e inbox.Event, incoming message.Metadata, msg *message.Message, index int) *message.Message {
	msg = msg.Copy()
	id := msg.Metadata[event.IDKey]
	if id == "" || id == incoming[event.IDKey] {
		id = uuid.NewSHA1(producedIDs, []byte(digest(e.Consumer, e.ID, strconv.Itoa(index)))).String()
		msg.UUID = id
		msg.Metadata[event.IDKey] = id
		msg.Metadata[event.CausationIDKey] = e.ID
	}
	if msg.Metadata[event.CausationIDKey] == "" {
		msg.Metadata[event.CausationIDKey] = e.ID
	}
	if msg.Metadata[event.CorrelationIDKey] == "" {
		carry(event.CorrelationIDKey, incoming, msg.Metadata)
	}
	if msg.Metadata[event.TraceparentKey] == "" { // the two belong together
		carry(event.TraceparentKey, incoming, msg.Metadata)
		carry(event.TracestateKey, incoming, msg.Metadata)
	}
	return msg
}

func carry(key string, from, to message.Metadata) {
	if value := from[key]; value != "" {
		to[key] = value
	}
}
