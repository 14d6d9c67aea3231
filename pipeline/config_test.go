package pipeline_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/middleware"
	"github.com/millrace-go/millrace/outbox"
	"github.com/millrace-go/millrace/pipeline"
)

func TestZeroConfigNeedsBrokersAlone(t *testing.T) {
	require.ErrorContains(t, pipeline.Config{}.Validate(), "Brokers")
	require.NoError(t, pipeline.Config{Brokers: []string{"127.0.0.1:9092"}}.Validate())
	require.NoError(t, pipeline.Config{Connection: kafka.Connection{Brokers: []string{"127.0.0.1:9092"}}}.Validate())
}

func TestValidateNamesEveryBadField(t *testing.T) {
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	require.NoError(t, err)
	err = pipeline.Config{
		Brokers:         []string{"no port"},
		Schema:          "No Schema",
		Publisher:       kafka.PublisherConfig{ChunkSize: -1},
		Forwarder:       forwarder.Config{Router: router, Outbox: outbox.SubscriberConfig{Lease: time.Millisecond}},
		Subscriber:      kafka.SubscriberConfig{ConsumerGroup: "one for all", Parallelism: -1},
		Retry:           middleware.Retry{MaxRetries: -2},
		HandlerTimeout:  -1,
		DeadLetterTopic: "no topic",
		ReplayInterval:  -1,
		CloseTimeout:    -1,
	}.Validate()
	for _, field := range []string{
		"no port", "No Schema", "ChunkSize", "Lease", "ConsumerGroup", "Parallelism", "MaxRetries",
		"Forwarder.Router", "HandlerTimeout", "DeadLetterTopic", "ReplayInterval", "CloseTimeout",
	} {
		require.ErrorContains(t, err, field)
	}
	_, err = pipeline.New(nil, pipeline.Config{}, nil)
	require.ErrorContains(t, err, "Brokers")
	_, err = pipeline.New(nil, pipeline.Config{Brokers: []string{"127.0.0.1:9092"}}, nil)
	require.ErrorContains(t, err, "db is nil")
}
