package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill"
)

func (x *session) startRead(now time.Time) {
	if x.reading || now.Before(x.pollAt) || x.once && !x.more || x.version != x.engine.version {
		return // nothing is read before it is known what operators have changed
	}
	p, ok := x.engine.planRead()
	if x.full = !ok; x.full {
		// What operators have changed is not seen by reads then, and may make room.
		if !x.once && !x.parking && !now.Before(x.parkAt) && !now.Before(x.controlAt) {
			x.controlAt = now.Add(max(x.sub.config.PollInterval, storePause))
			x.readControl()
		}
		return
	}
	x.reading, x.readAt = true, now
	read := x.reader.plan(p)
	x.async(func(ctx context.Context) func() {
		res, err := read(ctx)
		return func() {
			x.reading = false
			if x.failed(err) {
				x.pollAt = time.Now().Add(backoff(x.failures, x.sub.config.MinBackoff, x.sub.config.MaxBackoff))
				x.failures++
				if x.once {
					x.stop(err)
				}
				return
			}
			x.failures = 0
			if x.stopping {
				return
			}
			x.controlAt = time.Now().Add(max(x.sub.config.PollInterval, storePause))
			if x.version = res.version; x.version != x.engine.version {
				return // read again once it is known what operators have changed
			}
			for _, i := range res.items {
				if i.late {
					x.sub.stats.late.Add(1)
				}
			}
			x.more = x.engine.take(p, res)
			if len(res.items) > 0 {
				x.pollPause = tightPoll
			}
			x.pollAt = time.Time{}
			if !x.more {
				x.pollAt = time.Now().Add(x.pollPause)
				x.pollPause = min(x.pollPause*2, x.sub.config.PollInterval)
			}
		}
	})
}

func (x *session) startSettle(now time.Time) {
	if x.settling || now.Before(x.settleAt) || len(x.engine.acked) == 0 {
		x.release()
		return
	}
	if x.engine.acked[0].parked != nil && x.parking {
		return // the rows of parked events are dealt with one thing at a time
	}
	items := x.engine.planSettle(settleLimit)
	x.settling = true
	x.parking = x.parking || items[0].parked != nil
	x.async(func(ctx context.Context) func() {
		mine, err := x.settler.receipts(ctx, items)
		return func() {
			x.settling = false
			if items[0].parked != nil {
				x.parking = false
			}
			if x.failed(err) {
				// Whether it was written is unknown; writing it again is harmless.
				x.engine.unsettle(items)
				x.settleAt = time.Now().Add(x.sub.config.MinBackoff)
				return
			}
			held := 0
			for _, i := range items {
				if mine[i.stored.shard] {
					held++
				}
			}
			x.sent += held
			x.sub.stats.sent.Add(int64(held))
			if lost := x.engine.settled(items, mine); len(lost) > 0 {
				x.fenced(lost, "Receipts refused: another relay has taken the shards over", len(items)-held)
			}
			x.release()
		}
	})
}

// fenced tells of a write that came too late.
func (x *session) fenced(lost []*shard, what string, events int) {
	x.sub.stats.fenced.Add(int64(events))
	x.sub.logger.Info(what, watermill.LogFields{"shards": shardNumbers(lost), "events": events})
}

// release gives back the shards nothing of which is in flight any longer.
func (x *session) release() {
	if x.storing || x.settling {
		return
	}
	left := x.engine.left()
	if len(left) == 0 {
		return
	}
	of := tokenFrontiers(left)
	for _, s := range left {
		x.engine.lose(s)
	}
	x.storing = true
	x.async(func(ctx context.Context) func() {
		err := x.settler.release(ctx, of)
		return func() {
			x.storing = false
			if x.failed(err) {
				x.stop(err) // or the lease would go on being renewed for shards that are not read
			}
		}
	})
}

func (x *session) startStore(now time.Time) {
	if x.storing || now.Before(x.storeAt) {
		return
	}
	x.storeAt = now.Add(storePause)
	moved := x.engine.planStore(now)
	save, drop := x.engine.planLanes(now)
	if len(moved) == 0 && len(save) == 0 && len(drop) == 0 {
		return
	}
	of := tokenFrontiers(moved)
	saved, dropped := x.laneRows(save), x.laneRows(drop)
	for _, l := range save {
		l.saved = true // as it is now; what changes meanwhile makes it false again
	}
	x.storing = true
	x.async(func(ctx context.Context) func() {
		// The lanes go first: a shard's frontier counts on them.
		err := x.lanes.write(ctx, saved, dropped)
		lanesErr := err
		if err == nil {
			err = x.settler.store(ctx, of)
		}
		return func() {
			x.storing = false
			if lanesErr != nil {
				for _, l := range save {
					l.saved = false
				}
			} else {
				for n, l := range save {
					l.stored, l.storedAt, l.exists = saved[n].frontier, now, true
				}
				x.engine.dropped(drop)
			}
			if x.failed(err) {
				return
			}
			for n, s := range moved {
				s.main.stored, s.main.storedAt = of[n].frontier, now
			}
		}
	})
}

func (x *session) laneRows(lanes []*lane) []laneRow {
	rows := make([]laneRow, len(lanes))
	for n, l := range lanes {
		rows[n] = x.engine.row(l)
	}
	return rows
}

func (x *session) startSweep(now time.Time) {
	if x.sweeping || x.once || now.Before(x.sweepAt) {
		return
	}
	x.sweepAt = now.Add(x.sub.config.SweepInterval)
	of := laneFrontiers(x.engine.owned())
	limit := room{min(sweepRows, x.engine.room()-x.engine.reading.rows), x.engine.byteRoom() - x.engine.reading.bytes}
	if len(of) == 0 || limit.rows <= 0 || limit.bytes <= 0 {
		return
	}
	full := x.fullSweep
	x.sweeping, x.fullSweep = true, false
	x.async(func(ctx context.Context) func() {
		items, err := x.sweeper.sweep(ctx, of, full, limit)
		return func() {
			x.sweeping = false
			if x.failed(err) || x.stopping {
				x.fullSweep = x.fullSweep || full
				return
			}
			x.sub.stats.sweeps.Add(1)
			if len(items) >= limit.rows {
				x.sweeper.again(items)
			}
			if found := x.engine.takeSwept(items); len(found) > 0 {
				x.sweeper.again(items)
				x.sweepAt = time.Now().Add(storePause)
				x.sub.stats.swept.Add(int64(len(found)))
				x.sub.logger.Error("Events below the frontier had not been sent; sending them now",
					errors.New("the reader overlooked events: their transaction ids or positions are not this cluster's"),
					watermill.LogFields{"events": len(found), "first_event_id": found[0].eventID})
			}
		}
	})
}

func tokenFrontiers(shards []*shard) []tokenFrontier {
	of := make([]tokenFrontier, len(shards))
	for n, s := range shards {
		of[n] = tokenFrontier{s.token, s.storable(), s.guard == nil && s.storable().position > s.main.stored.position}
	}
	return of
}

func laneFrontiers(shards []*shard) []laneFrontier {
	var of []laneFrontier
	for _, s := range shards {
		for _, l := range s.all() {
			if !l.merged {
				of = append(of, laneFrontier{tokenFrontier{token: s.token, frontier: l.settled}, l.topic, l.excluded()})
			}
		}
	}
	return of
}

func shardNumbers(shards []*shard) []int16 {
	numbers := make([]int16, len(shards))
	for n, s := range shards {
		numbers[n] = s.token.shard
	}
	return numbers
}
