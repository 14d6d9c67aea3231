package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
)

// appendsAndRefuses has the broker write the first batch it is sent and answer with an error, as it does when it loses the
// leadership while followers copy.
func appendsAndRefuses(t *testing.T, cluster *kfake.Cluster, connection kafka.Connection, code int16) {
	t.Helper()
	direct, err := kgo.NewClient(kgo.SeedBrokers(connection.Brokers...))
	require.NoError(t, err)
	t.Cleanup(direct.Close)
	passing := false
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if passing {
			return nil, nil, false
		}
		passing = true
		var response *kmsg.ProduceResponse
		cluster.SleepControl(func() {
			if answer, err := direct.Broker(0).Request(context.Background(), request); err == nil {
				response = answer.(*kmsg.ProduceResponse)
			}
		})
		if response == nil {
			return nil, nil, false
		}
		response.Topics[0].Partitions[0].ErrorCode, response.Topics[0].Partitions[0].BaseOffset = code, -1
		return response, nil, true
	})
}

// An error that can be given after the batch was written must not give its sequence numbers to the next batch: the broker
// would take that one for a repetition and acknowledge it unwritten.
func TestBatchThatMayBeWrittenTakesNoOtherWithIt(t *testing.T) {
	for _, refusal := range []*kerr.Error{kerr.UnknownServerError, kerr.PolicyViolation} {
		t.Run(refusal.Message, func(t *testing.T) {
			cluster, connection := faulty(t)
			topic := newTopic(t, connection, 1, nil)
			p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection, DeliveryTimeout: 10 * time.Second}, nil)
			closed(t, p, err)
			appendsAndRefuses(t, cluster, connection, refusal.Code)
			require.ErrorIs(t, p.Publish(topic, event.New("t", []byte("first"))), refusal)
			require.NoError(t, p.Publish(topic, event.New("t", []byte("second"))))
			require.Equal(t, []string{"first", "second"}, payloads(t, connection, topic))
		})
	}
}
