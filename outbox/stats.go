package outbox

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/event"
)

// Stats are counts since the subscriber was made, and how it is at the moment.
type Stats struct {
	Sent      int64 // receipts written
	Failed    int64 // batches at least one event of which was not acknowledged
	Fenced    int64 // receipts and parkings refused because another relay had taken the shard over
	Takeovers int64 // shards taken over from a relay whose lease had ended
	Swept     int64 // events the reader had overlooked and the safety sweep found: anything above 0 is an alarm
	Late      int64 // events that committed after events at higher positions had been read

	Parked      int64 // refusals after which an event was parked, to be tried again
	Quarantined int64 // events that were refused too often
	Blocked     int64 // events parked behind another of their key, or because their aggregate is paused
	Scheduled   int64 // events parked until they are due
	Released    int64 // events that had been parked as blocked and were taken up again

	// Attempts are events handed to the publisher and not returned untouched. Each ended in one of four ways: the broker took
	// it, refused it for good, its topic as a whole took nothing, or nobody can tell, so that it may be there and is sent again.
	Attempts, Acknowledged, Refused, Unavailable, Unknown int64

	Retries        int64 // attempts that were not the event's first, whatever the first failed of
	LeaseLosses    int64 // own leases that could not be renewed in time
	DatabaseErrors int64 // statements that failed
	Sweeps         int64 // safety sweeps done
	WakeUps        int64 // notifications of new events

	// BatchSizes counts the events handed out together. Buckets: 1, 2 and 5 and so on up to 5000.
	BatchSizes Histogram

	// Latency is, in seconds, the time from when an event was written, a moment before its commit, to its acknowledgement, by
	// the database's clock. Events that were scheduled are left out: they waited because they were meant to. Buckets from 5 ms
	// to 30 min.
	Latency Histogram

	// ClockOffset is by how much the database's clock is ahead of this process's, as of the last renewal of the lease and to
	// within half the time that took. Nothing depends on it but Latency.
	ClockOffset time.Duration

	Events int64 // in memory: read, and neither receipted nor parked yet
	Bytes  int64 // of those
	Shards int64 // owned
	Held   int64 // topics that are held at the moment

	Registered bool // it has a lease
	Listens    bool // it was told to listen for wake-ups,
	Connected  bool // and has the connection for it

	// Alive is false if the relay's loop has not moved for three times its lease, or three times the longest pause it
	// makes, which is 15 s at least: only a restart helps. While the database or the broker is away the loop moves. It is true
	// before Subscribe and after the end.
	Alive bool
}

// counters are what Stats are made of. The zero value, made ready by newCounters, is for all runs of a subscriber.
type counters struct {
	sent, failed, fenced, takeovers, swept, late          atomic.Int64
	parked, quarantined, blocked, scheduled, released     atomic.Int64
	attempts, acknowledged, refused, unavailable, unknown atomic.Int64
	retries, leaseLosses, databaseErrors, sweeps, wakeUps atomic.Int64
	events, bytes, shards, held, registered, connected    atomic.Int64

	clockOffset atomic.Int64 // nanoseconds
	movedAt     atomic.Int64 // when the loop last moved, in nanoseconds since made; 0 = there is none
	made        time.Time

	batchSizes, latency *histogram
}

func newCounters() *counters {
	return &counters{made: time.Now(), batchSizes: newHistogram(batchBounds), latency: newHistogram(secondBounds)}
}

// Stats returns the counts so far.
func (s *Subscriber) Stats() Stats {
	c := s.stats
	moved := c.movedAt.Load()
	return Stats{
		Sent: c.sent.Load(), Failed: c.failed.Load(), Fenced: c.fenced.Load(), Takeovers: c.takeovers.Load(), Swept: c.swept.Load(),
		Late: c.late.Load(), Parked: c.parked.Load(), Quarantined: c.quarantined.Load(), Blocked: c.blocked.Load(),
		Scheduled: c.scheduled.Load(), Released: c.released.Load(),
		Attempts: c.attempts.Load(), Acknowledged: c.acknowledged.Load(), Refused: c.refused.Load(),
		Unavailable: c.unavailable.Load(), Unknown: c.unknown.Load(), Retries: c.retries.Load(),
		LeaseLosses: c.leaseLosses.Load(), DatabaseErrors: c.databaseErrors.Load(), Sweeps: c.sweeps.Load(), WakeUps: c.wakeUps.Load(),
		BatchSizes: c.batchSizes.snapshot(), Latency: c.latency.snapshot(), ClockOffset: time.Duration(c.clockOffset.Load()),
		Events: c.events.Load(), Bytes: c.bytes.Load(), Shards: c.shards.Load(), Held: c.held.Load(),
		Registered: c.registered.Load() > 0, Listens: s.config.DirectURL != "", Connected: c.connected.Load() > 0,
		Alive: moved == 0 || time.Since(c.made)-time.Duration(moved) < s.stillFor,
	}
}

// moved says that the relay's loop moves.
func (c *counters) moved() { c.movedAt.Store(int64(time.Since(c.made))) }

// ended says that there is no loop any longer.
func (c *counters) ended() { c.movedAt.Store(0) }

// clock takes in what the database's clock said between two moments here.
func (c *counters) clock(database, sent, received time.Time) {
	c.clockOffset.Store(int64(database.Sub(sent.Add(received.Sub(sent) / 2))))
}

// tally counts what became of a batch that has ended.
func (c *counters) tally(b *Batch) {
	c.batchSizes.observe(float64(len(b.items)))
	for n, v := range b.verdicts {
		i := b.items[n]
		if errors.Is(v.err, event.ErrNotAttempted) {
			continue
		}
		c.attempts.Add(1)
		if i.attempts > 1 || i.parked != nil && i.parked.attempts > 0 {
			c.retries.Add(1)
		}
		switch {
		case v.err == nil:
			c.acknowledged.Add(1)
			if i.parked == nil || i.parked.state != stateScheduled {
				took := v.at.Add(time.Duration(c.clockOffset.Load())).Sub(i.createdAt)
				c.latency.observe(max(0, took.Seconds()))
			}
		case event.IsPermanent(v.err):
			c.refused.Add(1)
		case errors.Is(v.err, event.ErrTopicUnavailable):
			c.unavailable.Add(1)
		default:
			c.unknown.Add(1)
		}
	}
}

// picture is how a session is at one moment.
type picture struct{ events, bytes, shards, held int64 }

// show takes in how a session is now, given how it was.
func (c *counters) show(was, now picture) {
	c.events.Add(now.events - was.events)
	c.bytes.Add(now.bytes - was.bytes)
	c.shards.Add(now.shards - was.shards)
	c.held.Add(now.held - was.held)
}
