package outbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/outbox"
)

// choosy is a broker that refuses events for good as long as they are on its list for a topic.
type choosy struct {
	mu      sync.Mutex
	refused map[string]string // event_id -> topic
	sent    []string          // topic/event_id
	last    *message.Message
}

func (c *choosy) Publish(topic string, msgs ...*message.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, msg := range msgs {
		if c.refused[msg.UUID] == topic {
			return event.Permanent(errors.New("refused"))
		}
		c.sent, c.last = append(c.sent, topic+"/"+msg.UUID), msg
	}
	return nil
}

func (c *choosy) Close() error { return nil }

func (c *choosy) got() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

func (c *choosy) accept(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refused, id)
}

// What people do has to reach a relay that is at work, without a restart.
func TestOperatorRepairsWhileARelayIsAtWork(t *testing.T) {
	db := testkit.Migrated(t)
	o := newOperator(t, db, "ann")
	broker := &choosy{refused: map[string]string{"a1": "orders", "b1": "orders", "c1": "orders"}}
	f, err := forwarder.NewForwarder(db, broker, forwarder.Config{Outbox: outbox.SubscriberConfig{
		PollInterval: 20 * time.Millisecond, MinHold: 10 * time.Millisecond, MaxHold: 20 * time.Millisecond, MaxAttempts: 2,
	}}, nil)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, f.Close())
	}()
	becomes := func(id, state string) {
		t.Helper()
		require.Eventually(t, func() bool {
			d, err := o.Show(t.Context(), id, false)
			return err == nil && d.State == state
		}, 20*time.Second, 10*time.Millisecond, "%s is not %s", id, state)
	}
	do := oneChange(t)

	keyed(t, db, "a", "a1", "a2", "a3")
	becomes("a1", "quarantined")
	becomes("a3", "blocked")
	blue := "blue"
	require.NoError(t, do(o.Edit(t.Context(), outbox.Edit{Topic: "repaired", Metadata: map[string]*string{"colour": &blue}}, events("a1"))).Err)
	becomes("a3", "sent")
	require.Equal(t, []string{"repaired/a1", "orders/a2", "orders/a3"}, broker.got())
	d, err := o.Show(t.Context(), "a1", false)
	require.NoError(t, err)
	require.Equal(t, "repaired", d.Receipt.Topic)

	keyed(t, db, "b", "b1", "b2")
	becomes("b1", "quarantined")
	becomes("b2", "blocked")
	require.NoError(t, do(o.Skip(t.Context(), events("b1"))).Err)
	becomes("b2", "sent")
	becomes("b1", "quarantined")
	broker.accept("b1")
	require.NoError(t, do(o.Retry(t.Context(), events("b1"))).Err)
	becomes("b1", "sent")

	keyed(t, db, "c", "c1", "c2")
	becomes("c2", "blocked")
	require.NoError(t, do(o.Discard(t.Context(), events("c1"))).Err)
	becomes("c2", "sent")
	becomes("c1", "discarded")

	aggregate, topic := outbox.Pause{AggregateType: "order", AggregateID: "d"}, outbox.Pause{Topic: "mails"}
	require.NoError(t, o.Pause(t.Context(), aggregate, false))
	require.NoError(t, o.Pause(t.Context(), topic, false))
	keyed(t, db, "d", "d1")
	write(t, db, func(p *outbox.Publisher) error { return p.Publish("mails", named("m1")) })
	becomes("d1", "blocked")
	require.ErrorContains(t, do(o.Retry(t.Context(), events("d1"))).Err, "aggregate order/d is paused")
	becomes("m1", "pending")
	stats, err := o.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{1, 0, 1, 1}, []int64{stats.Pending, stats.Claimed, stats.Blocked, stats.Discarded})
	require.Equal(t, "mails", stats.Held[0].Topic)
	require.NoError(t, o.Resume(t.Context(), aggregate, false))
	require.NoError(t, o.Resume(t.Context(), topic, false))
	becomes("d1", "sent")
	becomes("m1", "sent")
	stats, err = o.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0, 0, 1}, []int64{stats.Pending, stats.Claimed, stats.Blocked, stats.Discarded})
}
