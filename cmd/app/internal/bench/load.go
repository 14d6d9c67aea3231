package bench

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

// batch is how many events one transaction of a preload writes. The server takes most of the time, so that COPY would gain
// nothing over the publisher.
const batch = 1000

// load is the events: all of them follow from their numbers, so that nobody has to keep them.
type load struct{ aggregates int }

const idFormat = "00000000-0000-7000-8000-%012x" // grows, as a UUIDv7 does

func eventID(n int) string { return fmt.Sprintf(idFormat, n) }

// number is the n of eventID.
func number(id string) (n int, ok bool) {
	if len(id) != 36 {
		return 0, false
	}
	parsed, err := strconv.ParseUint(id[24:], 16, 32)
	return int(parsed), err == nil && id == eventID(int(parsed))
}

func (l load) aggregate(n int) string { return fmt.Sprintf("order-%04d", n%l.aggregates) }

func (l load) version(n int) int64 { return int64(n/l.aggregates + 1) }

// payload is JSON of payloadBytes.
func (l load) payload(n int) []byte {
	p := make([]byte, 0, payloadBytes)
	p = fmt.Appendf(p, `{"order_id":%q,"version":%d,"event":%d,"note":"`, l.aggregate(n), l.version(n), n)
	for len(p) < payloadBytes-2 {
		p = append(p, 'x')
	}
	return append(p, `"}`...)
}

func (l load) event(n int) *message.Message {
	return event.New("order.changed", l.payload(n), event.Aggregate("order", l.aggregate(n), l.version(n)), event.WithID(eventID(n)))
}

// preload writes the first events to be relayed to a topic.
func (b *stage) preload(ctx context.Context, topic string) error {
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{MaxRows: batch}, nil)
	if err != nil {
		return err
	}
	for written := 0; written < b.Events; {
		messages := make([]*message.Message, min(batch, b.Events-written))
		err := outbox.InTx(ctx, b.db, func(ctx context.Context, _ *sql.Tx) error {
			for i := range messages {
				messages[i] = b.load.event(written + i)
				messages[i].SetContext(ctx)
			}
			return publisher.Publish(topic, messages...)
		})
		if err != nil {
			return fmt.Errorf("write events: %w", err)
		}
		written += len(messages)
		b.Progress("written", written, b.Events)
	}
	// Fresh statistics, as autovacuum keeps them in a database that has been at work for a while.
	_, err = b.db.ExecContext(ctx, "analyze millrace.outbox, millrace.outbox_receipt")
	return err
}
