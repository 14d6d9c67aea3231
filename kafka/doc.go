// Package kafka moves Watermill messages to and from Kafka: a Publisher that waits for every in-sync replica, and a
// Subscriber that handles different keys of a partition at once and the same key in order.
//
// franz-go carries the bytes; watermill-kafka's Marshaler and Unmarshaler decide what a record looks like.
//
//	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection}, logger)
//	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{Connection: connection, ConsumerGroup: "billing"}, logger)
//
// The Publisher never lets a record pass one that was refused: see Publisher.Produce. The Subscriber never commits past
// a record that was not handled: see Subscriber.
package kafka
