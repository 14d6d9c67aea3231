package forwarder

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

// Producer is a publisher that takes a batch and tells what the broker made of each message. kafka.Publisher is one.
type Producer interface {
	message.Publisher

	// Produce takes over the messages, in order, and returns; it is not called concurrently for one topic. It then calls
	// onResult once for each message: the receipt of the broker's acknowledgement, or an error. An error marked by
	// event.Permanent means that the broker will never take this message; event.ErrNotAttempted, that it was certainly not
	// sent; any other, that it may have been.
	//
	// Of the messages with one key, or more coarsely of one partition, none may be sent after one that failed: it and all
	// later ones, of this and of later calls, are refused with event.ErrNotAttempted until a call with a higher generation.
	//
	// ctx ends when the caller loses the right to send: what is not handed to the broker by then is not attempted.
	Produce(ctx context.Context, topic string, generation uint64, msgs []*message.Message, onResult func(i int, receipt event.Receipt, err error))
}
