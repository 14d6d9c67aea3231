package kafka_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/kafka"
)

func TestEveryBadFieldIsNamed(t *testing.T) {
	connection := kafka.Connection{Brokers: []string{"nowhere"}, SASL: kafka.SASL{Mechanism: "KERBEROS"}}
	_, err := kafka.NewPublisher(kafka.PublisherConfig{
		Connection: connection, Partitioner: "x", Compression: "x", MaxMessageBytes: 1, ChunkSize: -1,
		DeliveryTimeout: -1, CloseTimeout: -1, MetadataMaxAge: -1,
	}, nil)
	for _, field := range []string{"Brokers", "SASL.Mechanism", "SASL.Username", "SASL.Password", "Partitioner", "Compression",
		"MaxMessageBytes", "ChunkSize", "DeliveryTimeout", "CloseTimeout", "MetadataMaxAge"} {
		require.ErrorContains(t, err, field+":")
	}
	_, err = kafka.NewSubscriber(kafka.SubscriberConfig{
		Connection: connection, Parallelism: -1, MaxInFlight: -1, CommitInterval: 1, NackResendDelay: -1, CloseTimeout: -1,
		HandOverTimeout: -1, SessionTimeout: -1, Start: "x", InitializePartitions: -2, InitializeReplication: -2,
	}, nil)
	for _, field := range []string{"Brokers", "SASL.Mechanism", "Parallelism", "MaxInFlight", "CommitInterval", "NackResendDelay",
		"CloseTimeout", "HandOverTimeout", "SessionTimeout", "Start", "InitializePartitions", "InitializeReplication"} {
		require.ErrorContains(t, err, field+":")
	}
	require.ErrorContains(t, kafka.Connection{}.Validate(), "Brokers: missing")
	require.NoError(t, kafka.PublisherConfig{Connection: shared}.Validate())
	require.NoError(t, kafka.SubscriberConfig{Connection: shared}.Validate())
	for _, mechanism := range []string{kafka.SASLPlain, kafka.SASLScramSHA256, kafka.SASLScramSHA512} {
		connection := shared
		connection.SASL = kafka.SASL{Mechanism: mechanism, Username: "u", Password: "p"}
		require.NoError(t, connection.Validate())
	}
}

func TestPasswordIsNeverPrinted(t *testing.T) {
	config := kafka.PublisherConfig{Connection: kafka.Connection{SASL: kafka.SASL{Mechanism: "x", Username: "u", Password: "secret"}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, config), "secret")
		require.NotContains(t, fmt.Sprintf(format, &config.Connection), "secret")
	}
	encoded, err := json.Marshal(config.Connection.SASL)
	require.NoError(t, err)
	require.NotContains(t, string(encoded), "secret")
	require.NotContains(t, config.Validate().Error(), "secret")
}
