package doctor

import (
	"context"
	"strings"
	"time"
)

var reachable = subject{
	names: []string{"postgres.reachable", "kafka.reachable"},
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		return []Check{e.reach(ctx, "postgres.reachable", e.DatabaseError, func(ctx context.Context) error {
			return e.DB.PingContext(ctx)
		}), e.reach(ctx, "kafka.reachable", e.KafkaError, func(ctx context.Context) error {
			return e.Kafka.Ping(ctx)
		})}, nil
	},
}

func (e *examination) reach(ctx context.Context, name string, before error, ping func(context.Context) error) Check {
	if before != nil {
		return failed(name, "%s", strings.Join(strings.Fields(before.Error()), " "))
	}
	began := time.Now()
	if err := ping(ctx); err != nil {
		return failed(name, "it does not answer any more: %s", e.reason(ctx, err))
	}
	return ok(name, "it answers in %s", time.Since(began).Round(100*time.Microsecond))
}
