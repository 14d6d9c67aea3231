package kafka

import (
	"hash/fnv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Partitioner names the rule that chooses a record's partition from its key. Changing it moves keys to other
// partitions, so events of one aggregate that are still on the way may be handled out of order.
type Partitioner string

const (
	// PartitionerJava is the rule of Kafka's own Java client: murmur2. The default.
	PartitionerJava Partitioner = "java"
	// PartitionerSarama is the rule of sarama and so of stock watermill-kafka: FNV-1a.
	PartitionerSarama Partitioner = "sarama"
)

// franz-go's own partitioners; of records with a key they keep no state.
var (
	javaPartitioner   = kgo.StickyKeyPartitioner(nil).ForTopic("")
	saramaPartitioner = kgo.StickyKeyPartitioner(kgo.SaramaCompatHasher(fnv32a)).ForTopic("")
)

// partition chooses among n partitions. A record without a key is spread by fallback, its event_id, so that sending it
// again chooses the same partition.
func (p Partitioner) partition(key []byte, fallback string, n int) int32 {
	if key == nil {
		key = []byte(fallback)
	}
	partitioner := javaPartitioner
	if p == PartitionerSarama {
		partitioner = saramaPartitioner
	}
	return int32(partitioner.Partition(&kgo.Record{Key: key}, n)) //nolint:gosec // below n
}

func fnv32a(b []byte) uint32 {
	h := fnv.New32a()
	_, _ = h.Write(b)
	return h.Sum32()
}
