package bench

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/outbox"
)

// Writers is how many connections write at the same time, one event a transaction.
const Writers = 16

// writing is writers at work. Each has aggregates of its own, so that an aggregate's events are committed in their order.
type writing struct {
	stage     *stage
	topic     string
	publisher *outbox.ContextPublisher
	committed [Writers]atomic.Int64
}

func newWriting(b *stage, topic string) (*writing, error) {
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{}, nil)
	return &writing{stage: b, topic: topic, publisher: publisher}, err
}

// own is how many aggregates one of several writers has: itself, and every so many after it.
func own(writer, of int) int { return (manyAggregates - writer + of - 1) / of }

// nthOf is the number of a writer's nth event.
func nthOf(writer, nth int) int {
	return nth/own(writer, Writers)*manyAggregates + nth%own(writer, Writers)*Writers + writer
}

// run writes for a while, in all at the rate asked for, or as fast as it goes if that is 0, and says what was reached.
func (w *writing) run(ctx context.Context, perSecond float64, duration time.Duration) (reached float64, err error) {
	before, start := w.total(), time.Now()
	all, ctx := errgroup.WithContext(ctx)
	for writer := range Writers {
		all.Go(func() error {
			interval := time.Duration(0)
			if perSecond > 0 {
				interval = time.Duration(manyAggregates / float64(own(writer, Writers)) / perSecond * float64(time.Second))
			}
			due := start.Add(interval * time.Duration(writer) / Writers)
			for ; time.Since(start) < duration; due = due.Add(interval) {
				if due.Sub(start) >= duration {
					return pause(ctx, time.Until(start.Add(duration)))
				}
				if err := pause(ctx, time.Until(due)); err != nil {
					return err
				}
				if err := w.one(ctx, writer); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = all.Wait()
	return float64(w.total()-before) / time.Since(start).Seconds(), err
}

// one writes a writer's next event.
func (w *writing) one(ctx context.Context, writer int) error {
	nth := int(w.committed[writer].Load())
	_, err := w.stage.write(ctx, w.publisher, w.topic, nthOf(writer, nth))
	if err == nil {
		w.committed[writer].Add(1)
	}
	return err
}

// counts are how many events each writer has committed.
func (w *writing) counts() (counts [Writers]int) {
	for writer := range counts {
		counts[writer] = int(w.committed[writer].Load())
	}
	return counts
}

func (w *writing) total() (n int) {
	for _, count := range w.counts() {
		n += count
	}
	return n
}

// next is a number above those of all that was written.
func (w *writing) next() (n int) {
	for writer, count := range w.counts() {
		n = max(n, nthOf(writer, count))
	}
	return (n/manyAggregates + 1) * manyAggregates
}
