package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-go/millrace/kafka"
)

var producer = subject{
	names: []string{"producer.acks", "producer.partitioner", "producer.compression", "producer.max_message_bytes"},
	look: func(_ context.Context, e *examination) ([]Check, error) {
		p := e.config.Publisher
		partitioner := "java: murmur2, as Kafka's own clients place keys"
		if p.Partitioner == kafka.PartitionerSarama {
			partitioner = "sarama: FNV-1a, as sarama and stock watermill-kafka place keys; writers with Kafka's Java client place them elsewhere"
		}
		return []Check{
			ok("producer.acks", "acks=all, not configurable: an event counts as sent when every in-sync replica has it"),
			ok("producer.partitioner", "%s", partitioner),
			ok("producer.compression", "%s", p.Compression),
			ok("producer.max_message_bytes", "%d, before compression; a larger event is quarantined", p.MaxMessageBytes),
		}, nil
	},
}

// idempotence asks for what an idempotent producer asks for first.
var idempotence = subject{
	names: []string{"producer.idempotence"},
	needs: broker,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		const name = "producer.idempotence"
		response, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(ctx, e.Kafka)
		if err != nil {
			return nil, fmt.Errorf("producer id: %w", err)
		}
		err = kerr.ErrorForCode(response.ErrorCode)
		switch {
		case errors.Is(err, kerr.ClusterAuthorizationFailed):
			return []Check{failed(name, "this user may not produce idempotently: allow it IdempotentWrite on the cluster, or Write on a topic")}, nil
		case err != nil:
			return nil, fmt.Errorf("producer id: %w", err)
		}
		return []Check{ok(name, "idempotent, not configurable; the broker gives producer ids, so it drops a batch that is sent again")}, nil
	},
}
