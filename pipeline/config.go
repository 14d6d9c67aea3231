package pipeline

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/forwarder"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/middleware"
	"github.com/millrace-go/millrace/outbox"
)

// Config configures a Pipeline. Only Brokers is required.
type Config struct {
	// Brokers are addresses of Kafka brokers, each host:port. A short way to write Connection.Brokers.
	Brokers []string

	// Connection is how publisher and subscribers reach the brokers. Their own Connection, below, is not used.
	Connection kafka.Connection

	// Schema holds the tables of outbox and inbox. Default "millrace".
	Schema string

	// ConsumeOnly leaves the relay out, for processes beside which others relay. Default: events are relayed.
	ConsumeOnly bool

	// Publisher configures what the relay sends with, Forwarder the relay itself.
	Publisher kafka.PublisherConfig
	Forwarder forwarder.Config

	// Subscriber configures every handler's subscription; the consumer group is the consumer's name.
	Subscriber kafka.SubscriberConfig

	// Retry is what happens to a failed event before it is dead-lettered.
	Retry middleware.Retry

	// HandlerTimeout bounds one attempt of a handler. Default 30 s.
	HandlerTimeout time.Duration

	// DeadLetterTopic receives a record of each dead letter. Default: the event's topic with ".dlq" behind it.
	DeadLetterTopic string

	// ReplayInterval is how long a replay of a dead letter waits before its handler runs; a nacked one waits longer each time,
	// up to a minute. Default 1 s.
	ReplayInterval time.Duration

	// OnApplied and OnDuplicate are called, from a message's goroutine and with its consumer, when the effect of an event has
	// been committed, and when an event is acknowledged because it had been. See metrics.ConsumerCollector.
	OnApplied   func(consumer string, msg *message.Message)
	OnDuplicate func(consumer string, msg *message.Message)

	// CloseTimeout bounds how long closing waits for handlers and for events in flight. What is unfinished by then has its
	// context ended and is redone after the next start; a handler that ignores its context is waited for 10 s more, and then
	// Run and Close return Watermill's "router close timeout". Default 30 s.
	CloseTimeout time.Duration
}

func (c *Config) setDefaults() {
	if c.Schema == "" {
		c.Schema = outbox.DefaultSchema
	}
	if c.HandlerTimeout == 0 {
		c.HandlerTimeout = 30 * time.Second
	}
	if c.ReplayInterval == 0 {
		c.ReplayInterval = time.Second
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = 30 * time.Second
	}
	if len(c.Connection.Brokers) == 0 {
		c.Connection.Brokers = c.Brokers
	}
	c.Publisher.Connection = c.Connection
	if c.Publisher.MaxMessageBytes == 0 {
		c.Publisher.MaxMessageBytes = kafka.DefaultMaxMessageBytes
	}
	c.Subscriber.Connection = c.Connection
	c.Forwarder.Outbox.Schema = c.Schema
	if c.Publisher.CloseTimeout == 0 {
		c.Publisher.CloseTimeout = c.CloseTimeout
	}
	if c.Subscriber.CloseTimeout == 0 {
		c.Subscriber.CloseTimeout = c.CloseTimeout
	}
	if c.Forwarder.Outbox.CloseTimeout == 0 {
		c.Forwarder.Outbox.CloseTimeout = c.CloseTimeout
	}
}

// Validate names every bad field.
func (c Config) Validate() error {
	c.setDefaults()
	var errs []error
	field := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(c.Connection.Brokers) == 0 {
		errs = append(errs, errors.New("Brokers: missing"))
	} else {
		field("Publisher", c.Publisher.Validate())
		field("Subscriber", c.Subscriber.Validate())
	}
	field("Forwarder", c.Forwarder.Validate())
	field("Retry", c.Retry.Validate())
	if c.DeadLetterTopic != "" {
		field("DeadLetterTopic", event.ValidateTopic(c.DeadLetterTopic))
	}
	if c.Subscriber.ConsumerGroup != "" {
		errs = append(errs, errors.New("Subscriber.ConsumerGroup is set: each consumer has a group of its own name"))
	}
	if c.Forwarder.Router != nil {
		errs = append(errs, errors.New("Forwarder.Router is set: the pipeline has its own"))
	}
	for name, d := range map[string]time.Duration{
		"HandlerTimeout": c.HandlerTimeout, "ReplayInterval": c.ReplayInterval, "CloseTimeout": c.CloseTimeout,
	} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s: %s is not positive", name, d))
		}
	}
	return errors.Join(errs...)
}
