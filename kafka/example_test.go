package kafka_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
)

func Example() {
	connection := kafka.Connection{Brokers: shared.Brokers}
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection}, nil)
	if err != nil {
		panic(err)
	}
	defer publisher.Close()
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{Connection: connection, ConsumerGroup: "billing"}, nil)
	if err != nil {
		panic(err)
	}
	defer subscriber.Close()

	if err := subscriber.SubscribeInitialize("example-orders"); err != nil {
		panic(err)
	}
	paid := event.New("order.paid", []byte(`{"total":42}`), event.Aggregate("order", "4711", 3))
	if err := publisher.Publish("example-orders", paid); err != nil {
		panic(err)
	}
	messages, err := subscriber.Subscribe(context.Background(), "example-orders")
	if err != nil {
		panic(err)
	}
	msg := <-messages
	delivery, _ := event.DeliveryFromContext(msg.Context())
	fmt.Println(msg.Metadata[event.TypeKey], string(delivery.Key), string(msg.Payload))
	msg.Ack()
	// Output: order.paid 4711 {"total":42}
}

// An event that can not be sent holds back those behind it; the caller decides what becomes of it and goes on with a
// higher generation.
func ExamplePublisher_Produce() {
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{
		Connection:             kafka.Connection{Brokers: shared.Brokers},
		MaxMessageBytes:        10_000,
		AllowAutoTopicCreation: true,
	}, nil)
	if err != nil {
		panic(err)
	}
	defer publisher.Close()

	results := make(chan error)
	send := func(generation uint64, messages ...*message.Message) {
		publisher.Produce(context.Background(), "example-produce", generation, messages,
			func(_ int, _ event.Receipt, err error) { results <- err })
		for range messages {
			err := <-results
			fmt.Println(err == nil, errors.Is(err, kafka.ErrTooLarge), errors.Is(err, event.ErrNotAttempted))
		}
	}
	first := event.New("order.paid", []byte("{}"), event.PartitionKey("4711"))
	tooLarge := event.New("order.scanned", make([]byte, 10_000), event.PartitionKey("4711"))
	last := event.New("order.shipped", []byte("{}"), event.PartitionKey("4711"))
	send(1, first, tooLarge, last)
	send(2, last)
	// Output:
	// true false false
	// false true false
	// false false true
	// true false false
}
