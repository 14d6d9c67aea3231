package middleware

import (
	"strings"

	"github.com/millrace-go/millrace/event"
)

const (
	deadLetterSuffix   = ".dlq"
	maxTopicPrefix     = 200
	legalTopicAlphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)

// topic is where the dead letters of a topic go. It is a name Kafka accepts, whatever the source is called, because a refused
// one would make the dead letter unwritable.
func (d DeadLetter) topic(source string) string {
	if d.Topic != "" {
		return d.Topic
	}
	if topic := source + deadLetterSuffix; source != "" && event.ValidateTopic(topic) == nil {
		return topic
	}
	legal := strings.Map(func(r rune) rune {
		if strings.ContainsRune(legalTopicAlphabet, r) {
			return r
		}
		return '_'
	}, source)
	return legal[:min(len(legal), maxTopicPrefix)] + "." + digest(source)[:8] + deadLetterSuffix
}
