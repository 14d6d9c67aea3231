package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/millrace-go/millrace/event"
)

const (
	settleLimit = 5000 // receipts of one statement
	tightPoll   = 5 * time.Millisecond
	storePause  = time.Second
	heldPause   = 100 * time.Millisecond // between two counts of held topics
	finalBound  = 5 * time.Second        // for the statements a session ends with
)

// session is one stay of a relay in the register, on one incarnation of the database. One goroutine, loop, owns the engine;
// everything that waits runs beside it and hands back a function for loop to call.
type session struct {
	sub      *Subscriber
	emit     func(*session, *Batch)
	engine   *engine
	keeper   *keeper
	register *register
	reader   reader
	settler  settler
	parker   parker
	lanes    laneStore
	sweeper  *sweeper

	done    chan func()
	abandon chan struct{} // closed when nothing in flight is waited for any longer
	closing <-chan struct{}
	wake    <-chan struct{} // see listener; nil = nobody wakes
	work    sync.WaitGroup

	reading, settling, storing, sweeping bool
	parking                              bool // parked rows are being read or written: one thing at a time
	full                                 bool // nothing can be read: there is no room, or no shard
	stopping                             bool
	once, more, updated, fullSweep       bool
	pollPause                            time.Duration
	pollAt, storeAt, sweepAt, settleAt   time.Time
	readAt                               time.Time // the last read began
	parkAt, controlAt                    time.Time
	version                              int64     // of the control row, as the last read saw it
	began, now                           time.Time // of the session; of its last step
	failures, parkFailures               int
	claims                               int // that brought shards
	shown                                picture
	heldAt                               time.Time // held topics were counted
	sent                                 int       // receipts written
	err                                  error
}

// runSession registers a relay and works until closing is closed, the lease or the database's incarnation is lost, or, when
// limit is not negative, everything there was at the time has been tried once.
func (s *Subscriber) runSession(closing, wake <-chan struct{}, own *direct, limit int, emit func(*session, *Batch)) (sent int, err error) {
	r := &register{db: s.db, schema: s.config.Schema, relayID: uuid.NewString(), lease: s.config.Lease}
	k := newKeeper(r, limit >= 0)
	k.stats = s.stats
	defer k.expire(nil)
	entered := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Lease)
	err = r.enter(ctx, s.config.Name)
	cancel()
	if err != nil {
		s.stats.databaseErrors.Add(1)
		return 0, err
	}
	s.stats.registered.Add(1)
	defer s.stats.registered.Add(-1)
	k.extend(entered)
	x := &session{
		sub: s, emit: emit, engine: newEngine(s.config, limit), keeper: k, register: r,
		reader: newReader(s.db, own, s.config.Schema, r.anchor), settler: newSettler(s.db, s.config.Schema, r.anchor),
		parker: newParker(s.db, s.config.Schema, s.config.Name, r.anchor), lanes: newLaneStore(s.db, s.config.Schema, r.anchor),
		sweeper: newSweeper(s.db, s.config.Schema, s.config.SweepInterval),
		done:    make(chan func(), 64), abandon: make(chan struct{}), closing: closing, wake: wake,
		once: limit >= 0, more: true, pollPause: tightPoll, sweepAt: entered.Add(s.config.SweepInterval), began: entered, version: -1,
	}
	x.loop()
	x.finish()
	if errors.Is(x.err, ErrLeaseLost) {
		s.stats.leaseLosses.Add(1)
	}
	return x.sent, x.err
}

// loop is the life of a session.
func (x *session) loop() {
	keeping, stopKeeping := context.WithCancel(context.Background())
	defer stopKeeping()
	x.work.Go(func() { x.keeper.run(keeping) })

	timer := time.NewTimer(0)
	defer timer.Stop()
	var bound <-chan time.Time
	closing, lease := x.closing, x.keeper.lease.Done()
	for {
		over := x.step()
		x.show()
		if over {
			return
		}
		timer.Reset(x.pause())
		select {
		case f := <-x.done:
			f()
		case u := <-x.keeper.updates:
			x.take(u)
		case <-timer.C:
		case <-x.wake:
			x.woken()
		case <-closing:
			closing = nil
			x.stop(nil)
		case <-lease:
			lease = nil
			x.stop(context.Cause(x.keeper.lease))
		case <-bound:
			close(x.abandon)
			return
		}
		if x.stopping && bound == nil {
			bound = time.After(x.sub.config.CloseTimeout)
		}
	}
}

// show says how the session is.
func (x *session) show() {
	if !x.once {
		x.sub.stats.moved()
	}
	now := picture{events: int64(x.engine.rows), bytes: x.engine.bytes, shards: int64(len(x.engine.shards)), held: x.shown.held}
	if x.now.Sub(x.heldAt) > heldPause {
		x.heldAt, now.held = x.now, int64(len(x.engine.heldTopics()))
	}
	x.sub.stats.show(x.shown, now)
	x.shown = now
}

// woken looks soon, and often for a while: whoever commits a moment later need not have notified. While events come so fast
// that each wakes it, it leaves them time to gather.
func (x *session) woken() {
	if x.failures > 0 {
		return
	}
	x.pollPause = tightPoll
	if soon := x.readAt.Add(tightPoll); soon.Before(x.pollAt) {
		x.pollAt = soon
	}
}

// stop ends reading and sending; what is in flight is still settled. The first reason counts.
func (x *session) stop(reason error) {
	if x.stopping {
		return
	}
	x.stopping, x.err = true, errors.Join(x.err, reason)
	for _, s := range x.engine.shards {
		x.engine.leave(s)
	}
}

// step starts whatever can be started and says whether the session is over.
func (x *session) step() (over bool) {
	now := time.Now()
	x.now = now
	if !x.stopping {
		x.startAll(now)
	}
	if x.stopping {
		x.startSettle(now)
		return x.engine.idle() && !x.settling && !x.reading && !x.storing && !x.sweeping && !x.parking
	}
	return false
}

func (x *session) startAll(now time.Time) {
	x.engine.tryHeld(now)
	x.engine.holdStalled(now)
	x.startSettle(now)  // before bringing in more
	x.startParking(now) // before reading, which takes all the room there is
	x.startRead(now)
	for b := x.engine.nextBatch(now); b != nil; b = x.engine.nextBatch(now) {
		x.send(b)
	}
	x.startSettle(now)
	x.startParking(now)
	if x.once && x.updated && !x.reading && !x.settling && !x.parking && x.engine.idle() {
		// Nothing is being read, sent, settled or parked, and the steps above started nothing.
		x.stop(nil)
		return
	}
	x.startStore(now)
	x.startSweep(now)
}

// pause is how long nothing can become due.
func (x *session) pause() time.Duration {
	at := time.Now().Add(storePause)
	earlier := func(t time.Time, when bool) {
		if when && t.Before(at) {
			at = t
		}
	}
	earlier(x.pollAt, !x.reading && !x.stopping && !x.full)
	earlier(x.settleAt, !x.settling && len(x.engine.acked) > 0)
	earlier(x.sweepAt, !x.sweeping && !x.stopping)
	wake := x.engine.wakeAt()
	earlier(wake, !wake.IsZero() && !x.stopping)
	// What was due by then has been started, or waits for room and so for something to end.
	earlier(x.engine.dueAt, x.engine.dueAt.After(x.now) && !x.once && !x.parking && !x.stopping && !x.engine.dueAt.Before(x.parkAt))
	earlier(x.parkAt, x.parkAt.After(x.now) && !x.parking && !x.stopping)
	return max(time.Until(at), time.Millisecond)
}

// async runs f beside the loop, which then calls what f returned.
func (x *session) async(f func(ctx context.Context) func()) {
	x.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), max(x.sub.config.Lease, finalBound))
		defer cancel()
		x.post(f(ctx))
	})
}

// post hands f to the loop, or drops it when nobody waits for it any longer.
func (x *session) post(f func()) {
	select {
	case x.done <- f:
	case <-x.abandon:
	}
}

// take follows the keeper's update.
func (x *session) take(u update) {
	if x.stopping {
		return
	}
	x.updated = true
	for _, t := range u.lost {
		if s := x.engine.shards[t.shard]; s != nil && s.token == t {
			x.engine.lose(s)
			x.sub.logger.Info("Shard taken over by another relay", watermill.LogFields{"shard": t.shard})
		}
	}
	for _, c := range u.claims {
		x.engine.adopt(c)
		if c.takenOver {
			x.sub.stats.takeovers.Add(1)
		}
	}
	if len(u.claims) > 0 {
		x.fullSweep = true
		x.pollAt = time.Time{}
		x.claims++
		x.engine.version = 0 // what waits in them was read before, and an operator may have changed it
		x.sub.logger.Info("Claimed shards", watermill.LogFields{"claimed": len(u.claims), "owned": len(x.engine.owned())})
	}
	if owned := x.engine.owned(); !x.once && len(owned) > u.share {
		for _, s := range owned[u.share:] {
			x.engine.leave(s)
		}
	}
	if x.once && len(x.engine.shards) == 0 {
		x.stop(ErrLeaseHeld)
	}
}

func (x *session) send(b *Batch) {
	b.ctx = x.keeper.lease
	x.work.Go(func() {
		if b.suspect {
			if err := x.parker.putOnRecord(b.ctx, b.items[0].shard.token, b.items[0].position); err != nil {
				b.Report(0, event.Receipt{}, fmt.Errorf("%w: %w", event.ErrNotAttempted, err))
				b.Leave()
			}
		}
		if !b.reported() {
			x.emit(x, b)
		}
		x.post(func() {
			failing := x.engine.topics[b.topic].failures > 0
			failure := x.engine.batchEnded(b, time.Now())
			x.sub.stats.tally(b)
			x.report(b.topic, failing, failure)
		})
	})
}

// report tells of a batch that failed. An outage is logged when it begins and when it is over, a refused event each time.
func (x *session) report(topic string, failing bool, failure error) {
	fields := watermill.LogFields{"topic": topic}
	switch {
	case failure == nil && failing && x.engine.topics[topic].failures == 0:
		x.sub.logger.Info("Events are being sent again", fields)
	case failure == nil:
		return
	case event.IsPermanent(failure): // told of when it is parked
	case errors.Is(failure, event.ErrTopicUnavailable):
		if q := x.engine.topics[topic]; q.hold != nil && q.hold.failures == 1 {
			x.sub.logger.Error("A topic is held; trying again until it takes events", failure, fields)
		}
	case !failing:
		x.sub.logger.Error("Events could not be sent; trying again until they can", failure, fields)
	}
	if failure != nil {
		x.sub.stats.failed.Add(1)
		if x.once {
			x.err = errors.Join(x.err, fmt.Errorf("topic %s: %w", topic, failure))
		}
	}
}

// failed notes a failure of the database. It is logged when it begins and when it is over, not each time.
func (x *session) failed(err error) bool {
	if err != nil {
		x.sub.stats.databaseErrors.Add(1)
	}
	switch {
	case err == nil:
		if x.sub.databaseDown.CompareAndSwap(true, false) {
			x.sub.logger.Info("The database answers again", nil)
		}
		return false
	case errors.Is(err, errAnchor):
		x.stop(err)
	case x.sub.databaseDown.CompareAndSwap(false, true):
		x.sub.logger.Error("The database does not answer; trying again until it does", err, nil)
	}
	return true
}

// finish gives up what is left and leaves the register.
func (x *session) finish() {
	select {
	case <-x.abandon:
	default:
		close(x.abandon)
	}
	x.work.Wait()
	defer x.sub.stats.show(x.shown, picture{})
	if !x.once {
		x.sub.stats.moved()
	}
	ctx, cancel := context.WithTimeout(context.Background(), finalBound)
	defer cancel()
	left := tokenFrontiers(x.engine.left())
	if err := errors.Join(x.settler.release(ctx, left), x.register.leave(ctx)); err != nil {
		x.failed(err)
	}
}

// carry sends a message and says how it ended: acknowledged or not, or false for sent if it never left.
func (x *session) carry(out chan<- *message.Message, msg *message.Message) (sent, acked bool) {
	select {
	case out <- msg:
	case <-x.closing:
		return false, false
	case <-x.keeper.lease.Done():
		return false, false
	}
	select {
	case <-msg.Acked():
		return true, true
	case <-msg.Nacked():
		return true, false
	case <-x.abandon:
		return true, false
	}
}
