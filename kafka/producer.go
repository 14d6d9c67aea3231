package kafka

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producer is a lane's identity at the broker, which writes a batch once per (id, epoch, sequence) however often it
// arrives. The zero value has none yet.
type producer struct {
	known    bool
	id       int64
	epoch    int16
	sequence int32
}

// identify asks for an identity when there is none.
func (p *producer) identify(ctx context.Context, client *kgo.Client) error {
	if p.known {
		return nil
	}
	return retry(ctx, func() (bool, error) {
		response, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(ctx, client)
		if err != nil {
			return true, fmt.Errorf("producer id: %w", err)
		}
		if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
			return kerr.IsRetriable(err), fmt.Errorf("producer id: %w", err)
		}
		*p = producer{known: true, id: response.ProducerID, epoch: response.ProducerEpoch}
		return false, nil
	})
}

// advance follows n acknowledged records.
func (p *producer) advance(n int) {
	if int(p.sequence) > math.MaxInt32-n {
		*p = producer{}
		return
	}
	p.sequence += int32(n) //nolint:gosec // checked above
}

// abandon gives up on a batch that may be written later. A higher epoch makes the broker refuse it from then on, so that
// it can not land behind what is sent next.
func (p *producer) abandon() {
	if p.epoch == math.MaxInt16 {
		*p = producer{}
		return
	}
	p.epoch++
	p.sequence = 0
}
