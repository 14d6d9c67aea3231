package kafka

import (
	"errors"
	"fmt"
	"time"

	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
)

// StartPosition is where a partition is read from when the consumer group has committed no offset on it yet.
type StartPosition string

const (
	// StartOldest reads everything that is there. The default, so that a group that starts late skips nothing.
	StartOldest StartPosition = "oldest"
	// StartNewest skips everything that is there.
	StartNewest StartPosition = "newest"
)

// rebalanceTimeout is how long the group waits for a member to give up its partitions.
const rebalanceTimeout = 60 * time.Second

// SubscriberConfig configures a Subscriber. Only Connection.Brokers is required.
type SubscriberConfig struct {
	Connection Connection

	// ConsumerGroup shares the partitions of a topic among its members and remembers what was handled. Default: "", no
	// group: each subscription reads every partition and nothing is committed.
	ConsumerGroup string

	// Unmarshaler makes the message of a record. It is called from several goroutines. Default: Marshaler{}.
	Unmarshaler wkafka.Unmarshaler

	// Parallelism is how many messages of a subscription are handled at once, each of another key. With 1 every partition
	// is handled strictly in order, records without a key too. Default: 16.
	Parallelism int

	// MaxInFlight is how many records of a partition are held in memory, handled or waiting behind their key, before
	// fetching from it pauses. One fetched batch may go over it, by at most as much again. Smaller saves memory, larger
	// lets more keys go on beside a slow one. Default: 256.
	MaxInFlight int

	// CommitInterval is how often the handled prefix of each partition is committed. After a crash up to so much is
	// handled again. Default: 1 s.
	CommitInterval time.Duration

	// NackResendDelay is how long a nacked message waits before it is delivered again, ahead of its key's later ones.
	// Default: 100 ms.
	NackResendDelay time.Duration

	// CloseTimeout is how long Close waits for the messages in the hands of handlers. Default: 30 s.
	CloseTimeout time.Duration

	// HandOverTimeout is how long a partition that goes to another member waits for its messages in the hands of
	// handlers. What is not acked by then is handled again by the other member. Fetching pauses meanwhile. Below the
	// rebalance timeout of 60 s. Default: 20 s.
	HandOverTimeout time.Duration

	// SessionTimeout is how long the group waits for a silent member before its partitions go to others. Brokers bound it,
	// by default to 6 s and more. Default: 45 s.
	SessionTimeout time.Duration

	// Start is where a partition without a committed offset is read from. Default: StartOldest.
	Start StartPosition

	// ReadCommitted skips records of transactions that were aborted and waits for those that are open. Default: false.
	ReadCommitted bool

	// InitializePartitions and InitializeReplication are used by SubscribeInitialize when it creates a topic.
	// Default: 0, the cluster's own defaults.
	InitializePartitions  int32
	InitializeReplication int16
}

func (c *SubscriberConfig) setDefaults() {
	c.Connection.setDefaults()
	if c.Unmarshaler == nil {
		c.Unmarshaler = Marshaler{}
	}
	if c.Parallelism == 0 {
		c.Parallelism = 16
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 256
	}
	if c.CommitInterval == 0 {
		c.CommitInterval = time.Second
	}
	if c.NackResendDelay == 0 {
		c.NackResendDelay = 100 * time.Millisecond
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = 30 * time.Second
	}
	if c.HandOverTimeout == 0 {
		c.HandOverTimeout = 20 * time.Second
	}
	if c.SessionTimeout == 0 {
		c.SessionTimeout = 45 * time.Second
	}
	if c.Start == "" {
		c.Start = StartOldest
	}
	if c.InitializePartitions == 0 {
		c.InitializePartitions = -1
	}
	if c.InitializeReplication == 0 {
		c.InitializeReplication = -1
	}
}

// Validate names every field that can not work. Zero values stand for the defaults and are valid.
func (c SubscriberConfig) Validate() error {
	c.setDefaults()
	errs := []error{c.Connection.Validate()}
	if c.Parallelism < 1 || c.Parallelism > 10_000 {
		errs = append(errs, fmt.Errorf("Parallelism: %d is not between 1 and 10,000", c.Parallelism))
	}
	if c.MaxInFlight < 1 {
		errs = append(errs, fmt.Errorf("MaxInFlight: %d is not positive", c.MaxInFlight))
	}
	if c.CommitInterval < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("CommitInterval: %s is below 100 ms", c.CommitInterval))
	}
	if c.HandOverTimeout >= rebalanceTimeout {
		errs = append(errs, fmt.Errorf("HandOverTimeout: %s is not below the rebalance timeout of %s", c.HandOverTimeout, rebalanceTimeout))
	}
	if c.Start != StartOldest && c.Start != StartNewest {
		errs = append(errs, fmt.Errorf("Start: %q is neither %q nor %q", c.Start, StartOldest, StartNewest))
	}
	if c.InitializePartitions < -1 {
		errs = append(errs, fmt.Errorf("InitializePartitions: %d is negative", c.InitializePartitions))
	}
	if c.InitializeReplication < -1 {
		errs = append(errs, fmt.Errorf("InitializeReplication: %d is negative", c.InitializeReplication))
	}
	errs = append(errs,
		positive("NackResendDelay", c.NackResendDelay),
		positive("CloseTimeout", c.CloseTimeout),
		positive("HandOverTimeout", c.HandOverTimeout),
		positive("SessionTimeout", c.SessionTimeout))
	return errors.Join(errs...)
}
