package doctor_test

import (
	"context"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
)

// What the checks say of producer and consumer is what goes over the wire.
func TestProducerAndConsumerDoWhatIsSaidOfThem(t *testing.T) {
	c, p := cluster(t, kfake.SeedTopics(1, "orders"))
	var mu sync.Mutex
	var acks, isolation []int
	var starts []int64
	var sessions []int32
	var producers []int64
	c.Control(func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		switch r := request.(type) {
		case *kmsg.ProduceRequest:
			acks = append(acks, int(r.Acks))
			for _, topic := range r.Topics {
				for _, partition := range topic.Partitions {
					var batch kmsg.RecordBatch
					if batch.ReadFrom(partition.Records) == nil {
						producers = append(producers, batch.ProducerID)
					}
				}
			}
		case *kmsg.FetchRequest:
			isolation = append(isolation, int(r.IsolationLevel))
		case *kmsg.ListOffsetsRequest:
			for _, topic := range r.Topics {
				for _, partition := range topic.Partitions {
					starts = append(starts, partition.Timestamp)
				}
			}
		case *kmsg.JoinGroupRequest:
			sessions = append(sessions, r.SessionTimeoutMillis)
		}
		return nil, nil, false
	})
	connection := kafka.Connection{Brokers: c.ListenAddrs()}
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection}, nil)
	require.NoError(t, err)
	defer publisher.Close()
	require.NoError(t, publisher.Publish("orders", event.New("x", []byte("y"), event.WithID("a"))))
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{Connection: connection, ConsumerGroup: "group"}, nil)
	require.NoError(t, err)
	defer subscriber.Close()
	var messages <-chan *message.Message
	messages, err = subscriber.Subscribe(context.Background(), "orders")
	require.NoError(t, err)
	msg := <-messages
	msg.Ack()

	checks := p.examine()
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []int{-1}, acks, checks["producer.acks"].Detail)
	require.Len(t, producers, 1)
	require.GreaterOrEqual(t, producers[0], int64(0), checks["producer.idempotence"].Detail)
	const oldest = -2
	require.NotEmpty(t, starts)
	for _, start := range starts {
		require.EqualValues(t, oldest, start)
	}
	require.Contains(t, checks["consumer.start"].Detail, "oldest")
	require.NotEmpty(t, isolation)
	require.NotContains(t, isolation, 1)
	require.Contains(t, checks["consumer.isolation"].Detail, "read_uncommitted")
	require.NotEmpty(t, sessions)
	require.EqualValues(t, 45_000, sessions[0])
	require.Contains(t, checks["consumer.session_timeout"].Detail, "45s")
}
