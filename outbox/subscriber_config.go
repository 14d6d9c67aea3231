package outbox

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// SubscriberConfig configures a relay: the reading side of the outbox. The zero value is ready for production.
type SubscriberConfig struct {
	// Schema holds the outbox tables. Default DefaultSchema.
	Schema string

	// Name says in the register of relays, and so in status and logs, which process this is. Default host name and process id.
	Name string

	// Lease is how long shards stay with a relay that no longer answers, in whole milliseconds; it is renewed every third of
	// it. Shorter: a crashed relay is replaced sooner, but a pause of the process or the database costs the shards and
	// repeats what was in flight. Longer: events of a crashed relay wait longer. Default 10 s, at least 500 ms.
	Lease time.Duration

	// PollInterval is the longest pause between two looks at an idle outbox; a busy one is read without pause. Each look is
	// one query, however many shards there are. Default 1 s.
	PollInterval time.Duration

	// BatchSize is how many events are handed out together at most: as one carrier message, or as so many envelopes side by
	// side. Default 2000.
	BatchSize int

	// MaxInFlight is how many batches are with the publisher at once. More keeps the broker busy while receipts are written
	// and repeats more after a crash. Default 4.
	MaxInFlight int

	// MaxUnsettled and MaxUnsettledBytes bound the events held in memory: read, but not yet known to be acknowledged and
	// receipted. One event larger than the byte bound is still read, alone. Defaults 16,000 and 32 MiB.
	MaxUnsettled      int
	MaxUnsettledBytes int64

	// MinBackoff and MaxBackoff bound the pause after a failure of the broker or the database; it grows exponentially with
	// jitter and never gives up. Defaults 100 ms and 10 s.
	MinBackoff time.Duration
	MaxBackoff time.Duration

	// MinHold and MaxHold bound the pause before an event the broker refused for good is tried again. Events of the same key
	// wait behind it, all others pass, as long as those that wait leave room within MaxUnsettled and MaxUnsettledBytes.
	// Defaults 1 s and 5 min.
	MinHold time.Duration
	MaxHold time.Duration

	// SweepInterval is how often the relay looks, below what it has settled, for events it overlooked: in what has been
	// settled since, and every 60th time, as well as after a claim, in all there is. Default 1 min.
	SweepInterval time.Duration

	// CloseTimeout bounds how long Close waits for the verdicts of events in flight. What has none by then is sent again by
	// the next owner. Default 30 s.
	CloseTimeout time.Duration
}

func (c *SubscriberConfig) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	def(&c.Lease, 10*time.Second)
	def(&c.PollInterval, time.Second)
	def(&c.MinBackoff, 100*time.Millisecond)
	def(&c.MaxBackoff, 10*time.Second)
	def(&c.MinHold, time.Second)
	def(&c.MaxHold, 5*time.Minute)
	def(&c.SweepInterval, time.Minute)
	def(&c.CloseTimeout, 30*time.Second)
	if c.BatchSize == 0 {
		c.BatchSize = 2000
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 4
	}
	if c.MaxUnsettled == 0 {
		c.MaxUnsettled = 16_000
	}
	if c.MaxUnsettledBytes == 0 {
		c.MaxUnsettledBytes = 32 << 20
	}
}

// Validate names every bad field.
func (c SubscriberConfig) Validate() error {
	c.setDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	errs = append(errs, validateSchema(c.Schema))
	check(c.Lease >= 500*time.Millisecond, "Lease %s is shorter than 500ms", c.Lease)
	check(c.PollInterval > 0, "PollInterval %s is not positive", c.PollInterval)
	check(c.BatchSize > 0, "BatchSize %d is not positive", c.BatchSize)
	check(c.MaxInFlight > 0, "MaxInFlight %d is not positive", c.MaxInFlight)
	check(c.MaxUnsettled > 0, "MaxUnsettled %d is not positive", c.MaxUnsettled)
	check(c.MaxUnsettledBytes > 0, "MaxUnsettledBytes %d is not positive", c.MaxUnsettledBytes)
	check(c.MinBackoff > 0 && c.MinBackoff <= c.MaxBackoff, "MinBackoff %s is not between 0 and MaxBackoff %s", c.MinBackoff, c.MaxBackoff)
	check(c.MinHold > 0 && c.MinHold <= c.MaxHold, "MinHold %s is not between 0 and MaxHold %s", c.MinHold, c.MaxHold)
	check(c.SweepInterval > 0, "SweepInterval %s is not positive", c.SweepInterval)
	check(c.CloseTimeout > 0, "CloseTimeout %s is not positive", c.CloseTimeout)
	return errors.Join(errs...)
}
