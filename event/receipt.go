package event

import "errors"

// ErrNotAttempted says that a message was certainly not sent, because something it has to follow failed first or because
// its sender lost the right to send. It is sent again later and counts as no attempt.
var ErrNotAttempted = errors.New("not attempted")

// Receipt is where the broker put an acknowledged message.
type Receipt struct {
	Partition int32
	Offset    int64
}
