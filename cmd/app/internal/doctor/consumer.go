package doctor

import (
	"context"
)

// consumer tells what package kafka's subscriber does unless a program says otherwise: handlers live in programs of their own,
// so there is no configuration to look at.
var consumer = subject{
	names: []string{"consumer.start", "consumer.isolation", "consumer.session_timeout"},
	look: func(context.Context, *examination) ([]Check, error) {
		return []Check{
			ok("consumer.start", "oldest, by default: a group without offsets skips nothing; SubscriberConfig.Start changes it"),
			ok("consumer.isolation", "read_uncommitted, by default: the relay does not use Kafka's transactions; SubscriberConfig.ReadCommitted changes it"),
			ok("consumer.session_timeout", "45s, by default: so long a dead member keeps its partitions; SubscriberConfig.SessionTimeout changes it"),
		}, nil
	},
}
