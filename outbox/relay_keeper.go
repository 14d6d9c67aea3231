package outbox

import (
	"context"
	"errors"
	"time"
)

// ErrLeaseLost means that the relay could not renew its lease in time: its shards may be another's now.
var ErrLeaseLost = errors.New("outbox: lease lost")

// keeper renews a relay's lease and claims shards, in a goroutine of its own so that no amount of work starves the renewal
// that protects it.
type keeper struct {
	register *register
	once     bool // claim what is free now, whatever the fair share

	lease    context.Context //nolint:containedctx // ends when the right to send does
	expire   context.CancelCauseFunc
	expiry   *time.Timer
	deadline time.Time

	updates chan update
	known   map[token]bool
	watched map[string]watchedRelay
	stats   *counters
}

// update is what the keeper tells the session.
type update struct {
	claims []claimed
	lost   []token
	share  int // how many shards this relay should have at most
}

// watchedRelay is a relay whose lease lies further ahead than any honest renewal could put it.
type watchedRelay struct {
	until string
	since time.Time
	lease time.Duration
}

func newKeeper(r *register, once bool) *keeper {
	k := &keeper{register: r, once: once, updates: make(chan update), known: map[token]bool{}, watched: map[string]watchedRelay{}, stats: newCounters()}
	k.lease, k.expire = context.WithCancelCause(context.Background())
	return k
}

// extend moves the local end of the lease. It counts from before the renewal was sent, on this process's monotonic clock,
// and stops a tenth early: what is handed to the broker then still arrives within the lease as a rule, and the fence takes
// care of the exceptions.
func (k *keeper) extend(sent time.Time) {
	k.deadline = sent.Add(k.register.lease * 9 / 10)
	if k.expiry == nil {
		k.expiry = time.AfterFunc(time.Until(k.deadline), func() { k.expire(ErrLeaseLost) })
		return
	}
	if k.expiry.Stop() {
		k.expiry.Reset(time.Until(k.deadline))
	}
}

// run keeps the lease until ctx ends or the lease does.
func (k *keeper) run(ctx context.Context) {
	defer k.expiry.Stop()
	interval := k.register.lease / 3
	for {
		pause := interval
		if err := k.tick(ctx); err != nil {
			if errors.Is(err, ErrLeaseLost) {
				k.expire(err)
				return
			}
			k.stats.databaseErrors.Add(1)
			pause = interval / 4 // the database did not answer: there is still time to ask again
		}
		select {
		case <-time.After(pause):
		case <-k.lease.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

func (k *keeper) tick(ctx context.Context) error {
	sent := time.Now()
	bounded, cancel := context.WithDeadline(ctx, k.deadline)
	defer cancel()
	c, err := k.register.renew(bounded, k.dead())
	received := time.Now()
	if err != nil {
		return err
	}
	if !c.renewed {
		return ErrLeaseLost
	}
	k.extend(sent)
	k.stats.clock(c.clock, sent, received)
	k.watch(c.relays)

	u := update{share: k.share(c)}
	mine := make(map[token]bool, len(c.mine))
	for _, t := range c.mine {
		mine[t] = true
	}
	for t := range k.known {
		if !mine[t] {
			u.lost = append(u.lost, t)
			delete(k.known, t)
		}
	}
	// Shards the database says are this relay's though it was never told: the answer to a claim was lost.
	resolved := map[string]bool{}
	for _, t := range c.mine {
		if !k.known[t] && !resolved[t.claimID] {
			resolved[t.claimID] = true
			got, err := k.register.lookup(bounded, t.claimID)
			if err != nil {
				return err
			}
			u.claims = append(u.claims, got...)
		}
	}
	if want := min(u.share-len(c.mine), c.free); want > 0 {
		got, err := k.register.claim(bounded, newClaimID(), want, k.dead())
		if err != nil {
			return err
		}
		u.claims = append(u.claims, got...)
	}
	if err := k.register.inspect(bounded, u.claims); err != nil {
		return err
	}
	for _, cl := range u.claims {
		k.known[cl.token] = true
	}
	select {
	case k.updates <- u:
	case <-ctx.Done():
	}
	return nil
}

// share is this relay's part of the shards when all live relays take equally many.
func (k *keeper) share(c census) int {
	if k.once {
		return c.shards
	}
	live, rank := 0, 0
	for _, r := range c.relays { // sorted by id, so that all relays agree on who gets one more
		if !r.Live {
			continue
		}
		if r.ID == k.register.relayID {
			rank = live
		}
		live++
	}
	if live == 0 {
		return c.shards
	}
	share := c.shards / live
	if rank < c.shards%live {
		share++
	}
	return share
}

// watch notes relays whose lease ends too far ahead. Such a lease was written before the database's clock went back; taken
// at its word it would bind for as long as the clock was off.
func (k *keeper) watch(relays []relayEntry) {
	now := time.Now()
	seen := map[string]watchedRelay{}
	for _, r := range relays {
		if !r.Ahead || r.ID == k.register.relayID {
			continue
		}
		w, ok := k.watched[r.ID]
		if !ok || w.until != r.Until {
			w = watchedRelay{until: r.Until, since: now, lease: time.Duration(r.Lease) * time.Millisecond}
		}
		seen[r.ID] = w
	}
	k.watched = seen
}

// dead returns the watched relays that have not renewed for a whole lease of theirs on this process's monotonic clock.
func (k *keeper) dead() []string {
	dead := []string{}
	for id, w := range k.watched {
		if time.Since(w.since) > w.lease {
			dead = append(dead, id)
		}
	}
	return dead
}
