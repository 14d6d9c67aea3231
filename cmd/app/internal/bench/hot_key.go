package bench

import "context"

// HotKey measures a relay whose events all belong to one aggregate, so that each has to wait for those before it, next to a
// relay with as many events of a thousand aggregates.
func HotKey(ctx context.Context, config Config) (f Figures, err error) {
	var many Figures
	err = on(ctx, config, load{manyAggregates}, []string{"warm", "raw", "relay"}, func(b *stage) error {
		if err := b.preload(ctx, b.topic("relay")); err != nil {
			return err
		}
		if _, err := b.rawLimit(ctx); err != nil { // the broker is as warm for the first as for the second
			return err
		}
		many, err = b.drain(ctx)
		return err
	})
	if err != nil {
		return Figures{}, err
	}
	err = on(ctx, config, load{1}, []string{"relay", "latency"}, func(b *stage) error {
		if err := b.preload(ctx, b.topic("relay")); err != nil {
			return err
		}
		if f, err = b.drain(ctx); err != nil {
			return err
		}
		f.LimitPerSecond = some(many.EventsPerSecond)
		return b.rest(ctx, b.Events, &f)
	})
	f.also(many)
	return f, err
}
