package event

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Delivery is where a consumed message came from.
type Delivery struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte // nil when the record had none
	Timestamp time.Time

	// Undecodable is set when the record could not be decoded; the message then carries the raw bytes, and middleware.Dedup
	// and the handlers package turn this into a permanent error.
	Undecodable error
}

type deliveryKey struct{}

// ContextWithDelivery is for subscribers: it records where a message came from.
func ContextWithDelivery(ctx context.Context, d Delivery) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}

// DeliveryFromContext returns where the message came from, if its subscriber said so.
func DeliveryFromContext(ctx context.Context) (Delivery, bool) {
	d, ok := ctx.Value(deliveryKey{}).(Delivery)
	return d, ok
}

// DeriveID makes a stable event_id for a record that came without one, from its coordinates, timestamp and body. The
// timestamp and body keep the ids of a recreated topic, whose offsets start again at 0, apart from those of the old one.
func DeriveID(d Delivery, payload []byte) string {
	h := sha256.New()
	frame := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	number := func(i int64) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(i)) //nolint:gosec // a bit pattern, not a quantity
		h.Write(n[:])
	}
	frame([]byte(d.Topic))
	number(int64(d.Partition))
	number(d.Offset)
	number(d.Timestamp.UnixMilli())
	frame(payload)
	return "derived:" + hex.EncodeToString(h.Sum(nil)[:16])
}
