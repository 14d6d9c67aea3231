package demo

import (
	"errors"
	"hash/fnv"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/millrace-go/millrace/event"
)

// failOneIn is how many events have one that fails at first.
const failOneIn = 25

var errInjected = errors.New("injected: the tax service does not answer")

// faults makes some first attempts fail, after the handler has done its work, so that all of that has to be undone. The very
// first of them panics.
type faults struct {
	on bool

	mu     sync.Mutex
	failed map[string]bool
}

func (f *faults) middleware(consumer string) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			produced, err := h(msg)
			if err != nil || !f.on {
				return produced, err
			}
			switch nth := f.next(consumer + "/" + msg.Metadata.Get(event.IDKey)); nth {
			case 0:
				return produced, nil
			case 1:
				panic("injected: a bug in a handler")
			default:
				return nil, errInjected
			}
		}
	}
}

// next returns which failure this attempt is to be, 0 for none.
func (f *faults) next(attempt string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(attempt))
	if hash.Sum32()%failOneIn != 0 {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed[attempt] {
		return 0
	}
	if f.failed == nil {
		f.failed = map[string]bool{}
	}
	f.failed[attempt] = true
	return len(f.failed)
}

// count is how many attempts failed. Each was followed by another, or its event is missing from the effects.
func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.failed)
}
