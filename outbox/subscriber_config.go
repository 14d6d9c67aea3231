package outbox

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/millrace-go/millrace/event"
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

	// DirectURL is the connection string, in the form libpq and pgx know, of two connections of the relay's own. On one the
	// database tells of new events, so that they are read within milliseconds. On the other they are read, with a statement
	// that is planned once instead of every time. While they are away, polling and db do, only slower. It must lead to the
	// server itself: behind a pooler in transaction mode give the server's address, or nothing. It never appears in logs or
	// errors. RunOnce does without. Default none.
	DirectURL string

	// BatchSize is how many events are handed out together at most: as one carrier message, or as so many envelopes side by
	// side. Default 2000.
	BatchSize int

	// MaxInFlight is how many batches of one topic are with the publisher at once. More keeps the broker busy while receipts are written
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

	// MaxAttempts is how often an event the broker refuses for good is tried before it is quarantined and waits for a person.
	// Failures of the way, such as a broker that is away, do not count. 1: nothing is tried again, also when the topic's limit
	// has been raised meanwhile. Very many: those behind it under policy Block wait for hours before anybody is called.
	// Default 10.
	MaxAttempts int

	// MinHold and MaxHold bound the pause before a refused event is tried again; it grows exponentially with jitter. Shorter:
	// the attempts are used up before anybody can have mended anything. Longer: a mended event, and those behind it, wait
	// longer. Defaults 1 s and 5 min.
	MinHold time.Duration
	MaxHold time.Duration

	// Policies say, by topic, what becomes of the events behind a refused one under the same key. Default Block for all.
	Policies map[string]Policy

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
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 10
	}
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
	if c.DirectURL != "" {
		_, err := listenConfig(c.DirectURL)
		if err == nil {
			var own *direct
			own, err = newDirect(c.DirectURL)
			own.close()
		}
		errs = append(errs, err)
	}
	check(c.BatchSize > 0, "BatchSize %d is not positive", c.BatchSize)
	check(c.MaxInFlight > 0, "MaxInFlight %d is not positive", c.MaxInFlight)
	check(c.MaxUnsettled > 0, "MaxUnsettled %d is not positive", c.MaxUnsettled)
	check(c.MaxUnsettledBytes > 0, "MaxUnsettledBytes %d is not positive", c.MaxUnsettledBytes)
	check(c.MinBackoff > 0 && c.MinBackoff <= c.MaxBackoff, "MinBackoff %s is not between 0 and MaxBackoff %s", c.MinBackoff, c.MaxBackoff)
	check(c.MinHold > 0 && c.MinHold <= c.MaxHold, "MinHold %s is not between 0 and MaxHold %s", c.MinHold, c.MaxHold)
	check(c.MaxAttempts > 0, "MaxAttempts %d is not positive", c.MaxAttempts)
	for topic, p := range c.Policies {
		if err := event.ValidateTopic(topic); err != nil {
			errs = append(errs, fmt.Errorf("Policies: %w", err))
		}
		check(p == Block || p == Skip, "Policies[%q]: %q is neither %q nor %q", topic, p, Block, Skip)
	}
	check(c.SweepInterval > 0, "SweepInterval %s is not positive", c.SweepInterval)
	check(c.CloseTimeout > 0, "CloseTimeout %s is not positive", c.CloseTimeout)
	return errors.Join(errs...)
}
