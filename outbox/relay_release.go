package outbox

import "time"

// look makes the relay look for due rows at that time, if not before.
func (e *engine) look(at time.Time) {
	if e.dueAt.IsZero() || at.Before(e.dueAt) {
		e.dueAt = at
	}
}

// headSent lets a key go on after its head.
func (e *engine) headSent(i *item) {
	if k := e.keys[i.orderKey()]; k != nil && i.parked.blocks && i.parked.state == stateRetrying {
		k.head = false
		e.unblock(i.orderKey(), k)
	}
}

const releaseKeys = 64 // keys whose followers one statement reads

// planRelease returns blocked keys whose events may go on.
func (e *engine) planRelease() (rows []keyRow, limit room) {
	if limit = e.loadRoom(); limit.rows == 0 {
		return nil, limit
	}
	for key := range e.releases {
		delete(e.releases, key)
		k := e.keys[key]
		if k == nil || k.head || k.paused || k.elsewhere || k.unwritten > 0 || k.loading || k.shard.leaving || e.queue(key.topic).isHeld() {
			continue // whatever changes that comes back to it
		}
		k.loading = true
		k.shard.inFlight++
		rows = append(rows, keyRow{shard: k.shard.token.shard, orderKey: key, after: k.after})
		if len(rows) == min(releaseKeys, limit.rows) {
			break
		}
	}
	if len(rows) > 0 {
		e.loading = limit
	}
	return rows, limit
}

// released takes in followers that were read, in order. Of the keys not in more, that is all there were: they are free.
func (e *engine) released(rows []keyRow, items []*item, more map[orderKey]bool, failed bool) {
	e.loading = room{}
	of := map[orderKey][]*item{}
	for _, i := range items {
		of[i.orderKey()] = append(of[i.orderKey()], i)
	}
	for _, row := range rows {
		k := e.keys[row.orderKey]
		if k == nil || !k.loading {
			continue // its shard is lost
		}
		k.loading = false
		k.shard.inFlight--
		waiting := k.waiting
		k.waiting = nil
		if !failed && !k.head && !k.paused && !k.shard.leaving {
			if more[row.orderKey] {
				e.releases[row.orderKey] = true
			} else {
				delete(e.keys, row.orderKey)
			}
			for _, i := range of[row.orderKey] {
				e.follow(k, i)
			}
		}
		for _, i := range waiting {
			e.place(i)
		}
		if k := e.keys[row.orderKey]; k != nil {
			e.unblock(row.orderKey, k)
		}
	}
}

// follow sends a follower that was read from the database on its way.
func (e *engine) follow(k *blockedKey, i *item) {
	if i.aggregateType != "" && e.paused.aggregates[aggregate{i.aggregateType, i.aggregateID}] {
		e.keys[i.orderKey()] = k
		k.paused, k.aggregate = true, aggregate{i.aggregateType, i.aggregateID}
	}
	q := e.queue(i.destination())
	if q.isHeld() {
		e.keys[i.orderKey()] = k
		k.elsewhere = true // not to be read again until a topic is let go
	}
	if k.paused || k.elsewhere {
		return
	}
	k.after = i.parked.entry
	e.admitParked(k.shard, i)
	q.ready = append(q.ready, i)
}

// planDue says how many due rows to look for.
func (e *engine) planDue() (limit room, ok bool) {
	if limit = e.loadRoom(); limit.rows == 0 {
		return limit, false
	}
	e.loading, e.dueAt = limit, time.Time{}
	return limit, true
}

// takeDue takes in rows that are due. next is how long until there may be others, negative = never.
func (e *engine) takeDue(items []*item, next time.Duration, now time.Time) {
	e.loading = room{}
	for _, i := range items {
		s := e.shards[i.stored.shard]
		if s == nil || s.leaving || e.loaded[i.place()] != nil {
			continue
		}
		e.admitParked(s, i)
		e.place(i)
	}
	if next >= 0 { // by the database's clock, which may be set meanwhile
		e.look(now.Add(min(next, e.config.SweepInterval)))
	}
}

func (e *engine) admitParked(s *shard, i *item) {
	e.admit(s, nil, i)
	e.loaded[i.place()] = i
	i.parked.version = e.version
}

// dueIn says whether it is time to look for due rows.
func (e *engine) dueIn(now time.Time) bool { return !e.dueAt.IsZero() && !now.Before(e.dueAt) }

// dueInMemory lists the rows in memory that the next look for due rows would find again.
func (e *engine) dueInMemory() (m memory) {
	for _, i := range e.loaded {
		if i.parked.state != stateBlocked {
			m.add(i)
		}
	}
	return m
}

// followersInMemory lists the rows in memory that reading followers of the keys would find again.
func (e *engine) followersInMemory(of []keyRow) (m memory) {
	keys := map[orderKey]int64{}
	for _, k := range of {
		keys[k.orderKey] = k.after
	}
	for _, i := range e.loaded {
		if after, ok := keys[i.orderKey()]; ok && i.parked.entry > after {
			m.add(i)
		}
	}
	return m
}

// heldTopics are the topics nothing is sent to now.
func (e *engine) heldTopics() []string {
	held := []string{}
	for _, q := range e.order {
		if q.isHeld() {
			held = append(held, q.topic)
		}
	}
	return held
}
