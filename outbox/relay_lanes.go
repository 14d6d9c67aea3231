package outbox

import "time"

// Why a topic is held.
const (
	holdPaused      = "paused"      // by an operator
	holdUnavailable = "unavailable" // missing, forbidden, or not what it was
	holdStalled     = "stalled"     // others went on while it did not
)

// stallAfter is how long a topic may fill the memory without an acknowledgement.
const stallAfter = 10 * time.Second

// hold is why and how long nothing is sent to a topic.
type hold struct {
	reason   string
	err      string
	failures int
	due      time.Time // when to try whether it takes events again; never, if paused
	trial    bool      // that is what is being done
	over     bool      // it was resumed, and is let go when nothing of it is in memory that its lanes would read again
}

func (q *topicQueue) isHeld() bool { return q.hold != nil && !q.hold.trial }

// trialAt is when to try a held topic again, or the zero time.
func (q *topicQueue) trialAt() time.Time {
	if !q.isHeld() || q.hold.reason == holdPaused || q.rows > 0 {
		return time.Time{}
	}
	return q.hold.due
}

// laneRow is a lane as the database has it.
type laneRow struct {
	token
	topic string
	frontier
	held     bool
	reason   string
	err      string
	failures int
}

func (e *engine) adoptLanes(s *shard, c claimed) {
	for _, row := range c.lanes {
		from := row.frontier
		if from.position > c.frontier.position { // also after a restore, when none of it counts
			from = c.frontier
		}
		l := s.newLane(row.topic, from, c.highest)
		l.saved, l.exists = true, true
		s.lanes[row.topic] = l
		q := e.queue(row.topic)
		switch resumed := row.reason == holdPaused && e.version > 0 && !e.paused.topics[row.topic]; {
		case row.held && q.hold == nil && !resumed:
			q.hold = &hold{reason: row.reason, err: row.err, failures: row.failures}
		case row.held != (q.hold != nil):
			l.saved = false
		}
	}
	for _, q := range e.order {
		if q.hold != nil && s.lanes[q.topic] == nil {
			s.lanes[q.topic] = s.newLane(q.topic, s.main.settled, s.main.resumeTo)
		}
	}
}

// holdTopic stops sending to a topic. It gets a lane of its own in every shard, from the first event on that is not settled,
// and what waits in memory is forgotten: others need the room.
func (e *engine) holdTopic(q *topicQueue, reason string, err error, now time.Time) {
	h := q.hold
	if h == nil {
		h = &hold{}
		q.hold = h
	}
	if h.trial, h.over, h.reason = false, h.over && reason == holdPaused, reason; err != nil {
		h.err = shorten(err.Error())
	}
	h.due = now.Add(backoff(h.failures, e.config.MinBackoff, e.config.MaxBackoff))
	h.failures++
	for _, s := range e.owned() {
		l := s.lanes[q.topic]
		if l == nil {
			l = s.newLane(q.topic, s.main.settled, s.main.read.position)
			s.lanes[q.topic] = l
		} else {
			l.rewind()
		}
		l.saved = false
	}
	q.filter(func(i *item) bool {
		e.putBack(i)
		return true
	})
	q.gone, q.failures, q.retryAt = false, 0, time.Time{}
	e.passMarks()
}

// tryHeld lets held topics be tried whose time has come.
func (e *engine) tryHeld(now time.Time) {
	for _, q := range e.order {
		if q.hold != nil && q.hold.over && q.rows == 0 {
			e.letGo(q)
		}
		if at := q.trialAt(); q.isHeld() && q.hold.reason != holdPaused && q.rows == 0 && !now.Before(at) {
			q.hold.trial = true
			e.resume(q)
		}
		if q.hold != nil && q.hold.trial && q.rows == 0 && e.caughtUp(q.topic) {
			e.letGo(q) // there was nothing to try it with
		}
	}
}

// letGo ends the hold on a topic: its lanes are read until they have caught up.
func (e *engine) letGo(q *topicQueue) {
	q.hold = nil
	for _, s := range e.shards {
		if l := s.lanes[q.topic]; l != nil {
			l.saved = false
		}
	}
	e.resume(q)
}

func (e *engine) resume(q *topicQueue) {
	q.retryAt, q.stuckSince = time.Time{}, time.Time{}
	e.look(time.Unix(0, 1))
	for key, k := range e.keys { // of any topic: an operator may have sent their events here
		k.elsewhere = false
		e.unblock(key, k)
	}
}

func (e *engine) caughtUp(topic string) bool {
	for _, s := range e.owned() {
		if l := s.lanes[topic]; l != nil && !l.merged {
			return false
		}
	}
	return true
}

// pauseTopics follows what operators have paused.
func (e *engine) pauseTopics(now time.Time) {
	for topic := range e.paused.topics {
		if q := e.queue(topic); q.hold == nil || q.hold.reason != holdPaused {
			e.holdTopic(q, holdPaused, nil, now)
		}
	}
	for _, q := range e.order {
		if q.hold != nil && q.hold.reason == holdPaused {
			q.hold.over = !e.paused.topics[q.topic]
		}
	}
	e.tryHeld(now)
}

// holdStalled holds the topic that keeps others from being read: it has had no acknowledgement for a while, and has filled the
// memory, more than any other. Whether there are others is not known then; if not, or if the broker is away for all, being held
// costs a topic nothing but the pause until it is tried again.
func (e *engine) holdStalled(now time.Time) {
	if e.room() >= e.config.MaxUnsettled/8 && e.byteRoom() > 0 {
		return
	}
	var most *topicQueue
	for _, q := range e.order {
		if !q.isHeld() && !q.stuckSince.IsZero() && now.Sub(q.stuckSince) > stallAfter && (most == nil || q.rows > most.rows) {
			most = q
		}
	}
	if most != nil {
		e.holdTopic(most, holdStalled, most.failure, now)
	}
}

// merge ends a lane that has been read as far as the main lane, under the same snapshot. It stays until all that was read
// of it is settled.
func (e *engine) merge(l *lane) { l.merged = true }

// planLanes returns the lanes to be written and those to be removed.
func (e *engine) planLanes(now time.Time) (save, drop []*lane) {
	for _, s := range e.owned() {
		for _, l := range s.all()[1:] {
			switch {
			case l.done() && e.queue(l.topic).hold == nil:
				l.exists = false
				drop = append(drop, l)
			case !l.saved || l.settled.position != l.stored.position || l.settled != l.stored && now.Sub(l.storedAt) > time.Minute:
				save = append(save, l)
			}
		}
	}
	return save, drop
}

// row is the lane as it is to be written.
func (e *engine) row(l *lane) laneRow {
	r := laneRow{token: l.shard.token, topic: l.topic, frontier: l.settled, reason: holdStalled}
	if h := e.queue(l.topic).hold; h != nil {
		r.held, r.reason, r.err, r.failures = true, h.reason, h.err, h.failures
	}
	return r
}

// dropped forgets lanes that were removed, unless they were needed again meanwhile.
func (e *engine) dropped(lanes []*lane) {
	for _, l := range lanes {
		if l.done() && e.queue(l.topic).hold == nil {
			delete(l.shard.lanes, l.topic)
		} else {
			l.saved = false
		}
	}
}
