package kafka

import (
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/event"
)

var (
	// ErrClosed says that the publisher or subscriber is closed.
	ErrClosed = errors.New("closed")
	// ErrUnknownTopic says that the topic, or the partition of it, does not exist.
	ErrUnknownTopic = fmt.Errorf("unknown topic or partition: %w", event.ErrTopicUnavailable)
	// ErrTopicDenied says that Kafka's access rules forbid the topic.
	ErrTopicDenied = fmt.Errorf("topic forbidden: %w", event.ErrTopicUnavailable)
	// ErrTooLarge says that the record can not be sent within MaxMessageBytes, or that the broker refused it as too large
	// when it was alone in its batch.
	ErrTooLarge = errors.New("record too large")
)
