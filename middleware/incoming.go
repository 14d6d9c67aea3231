package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	watermillkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
)

// ErrMissingEventID says that a record has no event_id and none may or can be derived. It is permanent.
var ErrMissingEventID = errors.New("missing event_id")

// incoming describes a message to the inbox, all but its ID. The consumer is the replayed row's, else the configured one,
// else the router handler's name.
func incoming(msg *message.Message, consumer string) (inbox.Event, error) {
	ctx := msg.Context()
	e := inbox.Event{Consumer: consumer, Payload: msg.Payload, Headers: msg.Metadata, Attempts: attempt(ctx)}
	if e.Consumer == "" {
		e.Consumer = message.HandlerNameFromCtx(ctx)
	}
	if replayed, ok := inbox.ReplayedFromContext(ctx); ok {
		e.Consumer, e.ID, e.Replayed = replayed.Consumer, replayed.EventID, true
	}
	e.Delivery, e.HasDelivery = delivery(ctx)
	if e.Delivery.Topic == "" {
		e.Delivery.Topic = message.SubscribeTopicFromCtx(ctx)
	}
	if err := inbox.ValidateConsumer(e.Consumer); err != nil {
		return inbox.Event{}, fmt.Errorf("middleware: %w: set Consumer: %w", inbox.ErrInfrastructure, err)
	}
	return e, nil
}

// delivery is where the message came from, by our own subscribers or the stock Kafka subscriber.
func delivery(ctx context.Context) (event.Delivery, bool) {
	if d, ok := event.DeliveryFromContext(ctx); ok {
		return d, true
	}
	partition, ok := watermillkafka.MessagePartitionFromCtx(ctx)
	if !ok {
		return event.Delivery{}, false
	}
	offset, ok := watermillkafka.MessagePartitionOffsetFromCtx(ctx)
	if !ok {
		return event.Delivery{}, false
	}
	timestamp, _ := watermillkafka.MessageTimestampFromCtx(ctx)
	key, _ := watermillkafka.MessageKeyFromCtx(ctx)
	return event.Delivery{
		Topic: message.SubscribeTopicFromCtx(ctx), Partition: partition, Offset: offset, Key: key, Timestamp: timestamp,
	}, true
}

// identify is the event's identity: the replayed row's, else its event_id, else one derived from where it came from.
func identify(e inbox.Event) (string, error) {
	switch id := e.Headers[event.IDKey]; {
	case e.Replayed:
		return e.ID, nil
	case id != "":
		return id, event.ValidateID(id)
	case e.HasDelivery:
		return event.DeriveID(e.Delivery, e.Payload), nil
	}
	return "", fmt.Errorf("%w, and no coordinates to derive one from", ErrMissingEventID)
}

// buryID is the identity of a dead letter. An event_id that cannot be stored, and one that another event has already, give way
// to a derived one, the same at every delivery of the record.
func buryID(e inbox.Event, uuid string, cause error) string {
	id, err := identify(e)
	switch {
	case errors.Is(cause, inbox.ErrPayloadMismatch):
		return "mismatch:" + digest(id, string(e.Payload))
	case err == nil:
		return id
	case e.HasDelivery:
		return event.DeriveID(e.Delivery, e.Payload)
	}
	parts := []string{uuid, string(e.Payload)}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		parts = append(parts, name, e.Headers[name])
	}
	return "unidentified:" + digest(parts...)
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
