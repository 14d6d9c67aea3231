package kafka

import (
	"errors"
	"fmt"
	"time"

	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
)

// DefaultMaxMessageBytes is the largest record batch a topic takes unless it was told otherwise.
const DefaultMaxMessageBytes = 1_048_588

// PublisherConfig configures a Publisher. Only Connection.Brokers is required. That every in-sync replica acknowledges
// and that the broker drops repeated sends of one batch (acks=all, idempotent) is not configurable.
type PublisherConfig struct {
	Connection Connection

	// Marshaler makes the record of a message. It is called from the goroutines that call Publish and Produce.
	// Default: Marshaler{}.
	Marshaler wkafka.Marshaler

	// Partitioner chooses the partition of a key. Default: PartitionerJava.
	Partitioner Partitioner

	// Compression of the batches. Sizes are checked before compression. Default: CompressionNone.
	Compression Compression

	// MaxMessageBytes is the largest record batch in bytes, and so the largest record with its headers. Below the topic's
	// max.message.bytes larger records are refused for nothing; above it a batch is refused by the broker, split and sent
	// again, which costs round trips. Default: 1,048,588, Kafka's own default.
	MaxMessageBytes int

	// ChunkSize is how many messages at most go to a partition at once, as one batch: the next chunk waits until all of it
	// was acknowledged. Larger moves a hot key faster, smaller loses less time when a record of a chunk is refused.
	// Default: 1000.
	ChunkSize int

	// DeliveryTimeout is how long to try to get a batch acknowledged before it fails. What was sent by then may still
	// have been written: the outcome is unknown. Default: 30 s.
	DeliveryTimeout time.Duration

	// CloseTimeout is how long Close waits for what was already accepted. Default: 30 s.
	CloseTimeout time.Duration

	// MetadataMaxAge is how long the partition count of a topic is used without asking again. Default: 5 min.
	MetadataMaxAge time.Duration

	// AllowAutoTopicCreation lets a cluster with auto.create.topics.enable create a missing topic. Without it, publishing
	// to a missing topic is ErrUnknownTopic. Default: false.
	AllowAutoTopicCreation bool

	// CheckPartitions is asked before a topic is first used and whenever its partition count changed, which moves keys to
	// other partitions. An error holds the topic: its messages fail with that error, and it is asked again with the next
	// ones. It may be called for several topics at once. Default: nil, any count is used.
	CheckPartitions func(topic string, partitions int32) error
}

func (c *PublisherConfig) setDefaults() {
	c.Connection.setDefaults()
	if c.Marshaler == nil {
		c.Marshaler = Marshaler{}
	}
	if c.Partitioner == "" {
		c.Partitioner = PartitionerJava
	}
	if c.Compression == "" {
		c.Compression = CompressionNone
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if c.ChunkSize == 0 {
		c.ChunkSize = 1000
	}
	if c.DeliveryTimeout == 0 {
		c.DeliveryTimeout = 30 * time.Second
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = 30 * time.Second
	}
	if c.MetadataMaxAge == 0 {
		c.MetadataMaxAge = 5 * time.Minute
	}
}

// Validate names every field that can not work. Zero values stand for the defaults and are valid.
func (c PublisherConfig) Validate() error {
	c.setDefaults()
	errs := []error{c.Connection.Validate()}
	if c.Partitioner != PartitionerJava && c.Partitioner != PartitionerSarama {
		errs = append(errs, fmt.Errorf("Partitioner: %q is neither %q nor %q", c.Partitioner, PartitionerJava, PartitionerSarama))
	}
	if _, ok := codecs[c.Compression]; !ok {
		errs = append(errs, fmt.Errorf("Compression: %q is none of none, gzip, snappy, lz4 and zstd", c.Compression))
	}
	if c.MaxMessageBytes < 1024 || c.MaxMessageBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("MaxMessageBytes: %d is not between 1 KiB and 1 GiB", c.MaxMessageBytes))
	}
	if c.ChunkSize < 0 || c.ChunkSize > 1_000_000 {
		errs = append(errs, fmt.Errorf("ChunkSize: %d is not between 1 and 1,000,000", c.ChunkSize))
	}
	errs = append(errs,
		positive("DeliveryTimeout", c.DeliveryTimeout),
		positive("CloseTimeout", c.CloseTimeout),
		positive("MetadataMaxAge", c.MetadataMaxAge))
	return errors.Join(errs...)
}

func positive(field string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%s: %s is not positive", field, d)
	}
	return nil
}
