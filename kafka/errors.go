package kafka

import "errors"

var (
	// ErrClosed says that the publisher or subscriber is closed.
	ErrClosed = errors.New("closed")
	// ErrUnknownTopic says that the topic, or the partition of it, does not exist.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrTopicDenied says that Kafka's access rules forbid the topic.
	ErrTopicDenied = errors.New("topic forbidden")
	// ErrTooLarge says that the record can not be sent within MaxMessageBytes, or that the broker refused it as too large
	// when it was alone in its batch.
	ErrTooLarge = errors.New("record too large")
)
