package demo

import (
	"context"
	"hash/fnv"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/examples/orders"
)

// counters is how many clients the shop serves at once. Operations on one order are served by one of them, in order.
const counters = 4

// shop has the order service carry operations out and keeps the journal of what was committed.
type shop struct {
	mu         sync.Mutex
	committed  []orders.Changed
	rolledBack int
}

func newShop() *shop { return &shop{} }

// open serves what feed asks for, and returns when all of it is done.
func (s *shop) open(ctx context.Context, service *orders.Service, feed func(do func(orders.Operation) error) error) error {
	group, ctx := errgroup.WithContext(ctx)
	queues := make([]chan orders.Operation, counters)
	for i := range queues {
		queues[i] = make(chan orders.Operation)
		group.Go(func() error {
			for operation := range queues[i] {
				changed, err := service.Apply(ctx, operation)
				if err != nil && !orders.Refused(err) {
					return err
				}
				s.note(changed, err)
			}
			return nil
		})
	}
	group.Go(func() error {
		defer func() {
			for _, queue := range queues {
				close(queue)
			}
		}()
		return feed(func(o orders.Operation) error {
			hash := fnv.New32a()
			_, _ = hash.Write([]byte(o.OrderID))
			select {
			case queues[hash.Sum32()%counters] <- o:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	return group.Wait()
}

func (s *shop) note(changed orders.Changed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.rolledBack++
		return
	}
	s.committed = append(s.committed, changed)
}
