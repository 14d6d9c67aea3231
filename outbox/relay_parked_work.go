package outbox

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill"
)

const parkLimit = 1000 // rows of one statement

// startParking does the next thing with parked rows, if there is any.
func (x *session) startParking(now time.Time) {
	if x.parking || now.Before(x.parkAt) {
		return
	}
	switch {
	case len(x.engine.toPark) > 0:
		x.park(x.engine.planPark(parkLimit))
	case x.version != x.engine.version:
		x.readControl()
	default:
		if of, limit := x.engine.planRelease(); len(of) > 0 {
			x.readFollowers(of, limit)
		} else if x.engine.dueIn(now) {
			if limit, ok := x.engine.planDue(); ok {
				x.readDue(limit)
			}
		}
	}
}

// parkWork runs f, which works on parked rows, beside the loop. What it returns is called if there was no error; else undo is.
func (x *session) parkWork(undo func(), f func(ctx context.Context) (func(), error)) {
	x.parking = true
	x.async(func(ctx context.Context) func() {
		done, err := f(ctx)
		return func() {
			x.parking = false
			if !x.failed(err) {
				x.parkFailures = 0
				done()
				return
			}
			x.parkAt = time.Now().Add(backoff(x.parkFailures, x.sub.config.MinBackoff, x.sub.config.MaxBackoff))
			x.parkFailures++
			undo()
			if x.once {
				x.stop(err)
			}
		}
	})
}

func (x *session) park(rows []parkedAs) {
	x.parkWork(func() { x.engine.unpark(rows) }, func(ctx context.Context) (func(), error) {
		mine, err := x.parker.write(ctx, rows)
		var first map[place]string
		var firstErr error
		if err == nil {
			first, firstErr = x.parker.firstErrors(ctx, rows)
		}
		return func() {
			x.failed(firstErr) // the log goes without
			for _, r := range rows {
				if mine[r.stored.shard] {
					x.count(r, first[r.place()])
				}
			}
			if lost := x.engine.parkedRows(rows, mine, time.Now()); len(lost) > 0 {
				x.fenced(lost, "Parking refused: another relay has taken the shards over", len(rows))
			}
		}, err
	})
}

// count tells of a row that was written, and why there was one before.
func (x *session) count(r parkedAs, first string) {
	fields := watermill.LogFields{
		"event_id": r.eventID, "topic": r.topic, "stage": r.failure.stage, "error_class": r.failure.class, "attempts": r.attempts,
	}
	if fields["first_error"] = first; first == "" {
		fields["first_error"] = r.failure.text
	}
	switch r.state {
	case stateQuarantined:
		x.sub.stats.quarantined.Add(1)
		x.sub.logger.Error("An event is quarantined: a person has to repair, skip or discard it", textError(r.failure.text), fields)
	case stateRetrying:
		x.sub.stats.parked.Add(1)
		fields["retry_in"] = r.delay.Round(time.Millisecond).String()
		x.sub.logger.Error("An event was refused and is parked", textError(r.failure.text), fields)
	case stateBlocked:
		x.sub.stats.blocked.Add(1)
	case stateScheduled:
		x.sub.stats.scheduled.Add(1)
	}
}

type textError string

func (e textError) Error() string { return string(e) }

func (x *session) readControl() {
	shards, claims := x.shardNumbers(), x.claims
	x.parkWork(func() {}, func(ctx context.Context) (func(), error) {
		c, err := x.parker.readControl(ctx, x.sub.config.Schema, shards)
		return func() {
			if claims != x.claims {
				return // the keys of the new shards are missing: read again
			}
			if x.version = c.version; x.version != x.engine.version {
				x.engine.obey(c, time.Now())
				x.pollAt = time.Time{}
			}
		}, err
	})
}

func (x *session) readFollowers(of []keyRow, limit room) {
	loaded := x.engine.followersInMemory(of)
	x.parkWork(func() { x.engine.released(of, nil, nil, true) }, func(ctx context.Context) (func(), error) {
		items, more, err := x.parker.readFollowers(ctx, of, limit.rows/len(of), limit.bytes, loaded)
		return func() {
			before := x.engine.seq
			x.engine.released(of, items, more, false)
			x.sub.stats.released.Add(int64(x.engine.seq - before)) //nolint:gosec // a few
		}, err
	})
}

func (x *session) readDue(limit room) {
	age := time.Duration(0)
	if x.once { // what was due when it began, and so nothing twice
		age = time.Since(x.began)
	}
	shards, held, loaded := x.shardNumbers(), x.engine.heldTopics(), x.engine.dueInMemory()
	x.parkWork(func() { x.engine.takeDue(nil, 0, time.Now()) }, func(ctx context.Context) (func(), error) {
		items, next, err := x.parker.readDue(ctx, shards, held, limit, loaded, age)
		return func() {
			if x.once && next > 0 {
				next = -1
			}
			x.engine.takeDue(items, next, time.Now())
		}, err
	})
}

func (x *session) shardNumbers() []int64 {
	var numbers []int64
	for _, s := range x.engine.owned() {
		numbers = append(numbers, int64(s.token.shard))
	}
	return numbers
}
