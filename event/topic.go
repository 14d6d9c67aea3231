package event

import "fmt"

// MaxTopicLength is Kafka's limit on a topic name in bytes.
const MaxTopicLength = 249

// ValidateTopic says whether Kafka can ever accept the topic name: 1 to MaxTopicLength of the characters a-z, A-Z, 0-9,
// '.', '_' and '-', and neither "." nor "..". The error has ErrInvalid in its chain.
func ValidateTopic(topic string) error {
	switch {
	case topic == "":
		return fmt.Errorf("%w: topic is empty", ErrInvalid)
	case topic == "." || topic == "..":
		return fmt.Errorf("%w: topic %q is reserved by Kafka", ErrInvalid, topic)
	case len(topic) > MaxTopicLength:
		return fmt.Errorf("%w: topic is %d bytes long, Kafka's limit is %d", ErrInvalid, len(topic), MaxTopicLength)
	}
	for _, c := range topic {
		legal := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !legal {
			return fmt.Errorf("%w: topic %q has the character %q; Kafka allows a-z, A-Z, 0-9, '.', '_' and '-'", ErrInvalid, topic, c)
		}
	}
	return nil
}
