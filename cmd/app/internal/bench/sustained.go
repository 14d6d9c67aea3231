package bench

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/cmd/app/internal/relayprocess"
	"github.com/millrace-go/millrace/event"
)

const (
	// alone is for how long writers write without a relay, to find how fast they can.
	alone = 5 * time.Second
	// headroom is what they write of that while a relay is to keep up: it needs the machine, too.
	headroom = 0.8
	// sampleInterval is how often the backlog is looked at.
	sampleInterval = 500 * time.Millisecond
)

// Backlog is how a relay kept up with writers.
type Backlog struct {
	AskedPerSecond   float64 // what the writers were to write
	WrittenPerSecond float64 // and did
	Max, Final       int     // events committed and not on the topic: at most, and when the writers stopped
	Flat             bool    // it did not grow
}

// Sustained measures a relay that runs while events are written, at Rate or, if that is 0, as fast as the writers alone can
// less headroom. Its throughput is that of the events written meanwhile.
func Sustained(ctx context.Context, config Config) (f Figures, backlog Backlog, err error) {
	err = on(ctx, config, load{manyAggregates}, []string{"warm", "raw", "relay", "latency"}, func(b *stage) error {
		limit, err := b.rawLimit(ctx)
		if err != nil {
			return err
		}
		w, err := newWriting(b, b.topic("relay"))
		if err != nil {
			return err
		}
		if f, backlog, err = b.keepUp(ctx, w); err != nil {
			return err
		}
		f.LimitPerSecond = some(limit)
		return b.rest(ctx, w.next(), &f)
	})
	return f, backlog, err
}

// writersAlone is how many events a second the writers reach while nobody relays, in a database of their own.
func writersAlone(ctx context.Context, config Config) (reached float64, err error) {
	err = on(ctx, config, load{manyAggregates}, nil, func(b *stage) error {
		w, err := newWriting(b, "orders")
		if err != nil {
			return err
		}
		b.Progress("writers alone", 0, 1)
		reached, err = w.run(ctx, 0, alone)
		return err
	})
	return reached, err
}

func (b *stage) keepUp(ctx context.Context, w *writing) (f Figures, backlog Backlog, err error) {
	backlog.AskedPerSecond = b.Rate
	if b.Rate == 0 {
		reached, err := writersAlone(ctx, b.Config)
		if err != nil {
			return Figures{}, Backlog{}, err
		}
		backlog.AskedPerSecond = headroom * reached
	}
	used, err := b.withRelay(func(relay *relayprocess.Process) error {
		// The first event shows that the relay is at work.
		if err := w.one(ctx, 0); err != nil {
			return err
		}
		if err := b.awaitRelayed(ctx, relay, w.topic, w.total()); err != nil {
			return err
		}
		if err := b.watch(ctx, relay, w, &backlog); err != nil {
			return err
		}
		return b.awaitRelayed(ctx, relay, w.topic, w.total())
	})
	if err != nil {
		return Figures{}, Backlog{}, err
	}
	f.used(used)
	var m meter
	t := newTally(b.load, w.total())
	err = broker.Scan(ctx, b.Brokers, w.topic, func(r *kgo.Record) {
		t.add(r)
		if n, ok := number(broker.Header(r, event.IDKey)); ok && n != nthOf(0, 0) {
			m.add(r.Timestamp)
		}
	})
	f.Events = w.total()
	f.Seconds, f.EventsPerSecond = m.rate()
	f.counted(t)
	return f, backlog, err
}

// watch has the writers write and looks at the backlog meanwhile.
func (b *stage) watch(ctx context.Context, relay *relayprocess.Process, w *writing, backlog *Backlog) error {
	client, err := broker.NewClient(b.Brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() { stop(); <-ended }()
	var writeErr error
	go func() {
		defer close(ended)
		backlog.WrittenPerSecond, writeErr = w.run(ctx, backlog.AskedPerSecond, b.Sustained)
	}()
	began := time.Now()
	var samples []sample
	err = relay.Wait(ctx, func(ctx context.Context) (bool, error) {
		over := false
		select {
		case <-ended:
			over = true
		case <-time.After(sampleInterval):
		}
		committed := w.total() // first: what is committed between the two may be relayed, too
		records, err := appended(ctx, client, w.topic)
		if err != nil {
			return false, err
		}
		samples = append(samples, sample{time.Since(began).Seconds(), float64(max(0, committed-int(records)))})
		b.Progress("seconds", int(time.Since(began).Seconds()), int(b.Sustained.Seconds()))
		return over, nil
	})
	if err != nil {
		return err
	}
	for _, s := range samples {
		backlog.Max = max(backlog.Max, int(s.events))
	}
	backlog.Final = int(samples[len(samples)-1].events)
	backlog.Flat = flat(samples, backlog.WrittenPerSecond)
	return writeErr
}

// sample is the backlog at a time.
type sample struct{ seconds, events float64 }

// flat says whether the backlog grew by no more than a hundredth of what was written, or a second's worth in short runs,
// once a fifth of the time had passed. The growth is that of the straight line that fits best, so that one slow moment
// does not decide.
func flat(samples []sample, writtenPerSecond float64) bool {
	samples = samples[len(samples)/5:]
	var x, y float64
	for _, s := range samples {
		x += s.seconds / float64(len(samples))
		y += s.events / float64(len(samples))
	}
	var xx, xy float64
	for _, s := range samples {
		xx += (s.seconds - x) * (s.seconds - x)
		xy += (s.seconds - x) * (s.events - y)
	}
	if xx == 0 {
		return true
	}
	took := samples[len(samples)-1].seconds - samples[0].seconds
	return xy/xx*took <= writtenPerSecond*max(0.01*took, 1)
}
