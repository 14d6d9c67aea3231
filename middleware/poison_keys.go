package middleware

// Metadata of a dead letter's record. The first four are those of Watermill's own PoisonQueue.
const (
	// ReasonPoisonedKey is the last error, cut and free of row data.
	ReasonPoisonedKey = "reason_poisoned"
	// TopicPoisonedKey is the topic the event came from.
	TopicPoisonedKey = "topic_poisoned"
	// HandlerPoisonedKey is the router handler that failed.
	HandlerPoisonedKey = "handler_poisoned"
	// SubscriberPoisonedKey is the type of its subscriber.
	SubscriberPoisonedKey = "subscriber_poisoned"

	// ConsumerPoisonedKey is the consumer, whose inbox row can be replayed.
	ConsumerPoisonedKey = "consumer_poisoned"
	// ErrorClassPoisonedKey is one of inbox's Class constants.
	ErrorClassPoisonedKey = "error_class_poisoned"
	// FirstErrorPoisonedKey is the first error where it differs from the last.
	FirstErrorPoisonedKey = "first_error_poisoned"
	// StackPoisonedKey is the beginning of the stack after a panic.
	StackPoisonedKey = "stack_poisoned"
	// AttemptsPoisonedKey is how often it was tried before this death.
	AttemptsPoisonedKey = "attempts_poisoned"
	// PartitionPoisonedKey and OffsetPoisonedKey are where the event was.
	PartitionPoisonedKey = "partition_poisoned"
	OffsetPoisonedKey    = "offset_poisoned"
	// KeyPoisonedKey is its record key in base64.
	KeyPoisonedKey = "key_poisoned"
	// HeadersPoisonedKey holds the headers that are not text, as a JSON object of name to base64.
	HeadersPoisonedKey = "headers_poisoned"

	// originalPrefix goes before the metadata that says what the event was, because the dead letter is another event.
	originalPrefix = "original_"
)
