package doctor

import (
	"context"
	"errors"
	"fmt"
)

const autoCreate = "auto.create.topics.enable"

var brokerVersion = subject{
	names: []string{"broker.version"},
	needs: broker,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		versions, err := e.admin.ApiVersions(ctx)
		if err != nil {
			return nil, err
		}
		guessed, brokers := "", 0
		for _, v := range versions.Sorted() {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if v.Err != nil {
				return []Check{warning("broker.version", "broker %d of %d does not tell its versions: see whether it runs", v.NodeID, len(versions))}, nil
			}
			guessed, brokers = v.VersionGuess(), brokers+1
		}
		return []Check{ok("broker.version", "Kafka %s by what it understands, brokers: %d", guessed, brokers)}, nil
	},
}

var brokerSettings = subject{
	names: []string{"broker.auto_create_topics"},
	needs: broker,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		const name = "broker.auto_create_topics"
		value, err := e.brokerSetting(ctx, autoCreate)
		switch {
		case err != nil:
			return nil, err
		case value == "true" && e.config.Publisher.AllowAutoTopicCreation:
			return []Check{warning(name, "%s=true, and kafka.create_topics is on: a misspelt topic is made with the defaults; make topics beforehand and turn either off", autoCreate)}, nil
		case value == "true":
			return []Check{warning(name, "%s=true: other programs make a misspelt topic by writing to it (the relay does not); set it to false", autoCreate)}, nil
		case e.config.Publisher.AllowAutoTopicCreation:
			return []Check{warning(name, "%s=%s, so kafka.create_topics has no effect: make topics beforehand and turn it off", autoCreate, value)}, nil
		}
		return []Check{ok(name, "%s=%s", autoCreate, value)}, nil
	},
}

// brokerSetting returns the value that a setting has on some broker.
func (e *examination) brokerSetting(ctx context.Context, key string) (string, error) {
	metadata, err := e.admin.BrokerMetadata(ctx)
	if err != nil {
		return "", err
	}
	if len(metadata.Brokers) == 0 {
		return "", errors.New("the cluster names no broker")
	}
	described, err := e.admin.DescribeBrokerConfigs(ctx, metadata.Brokers[0].NodeID)
	if err != nil {
		return "", err
	}
	for _, resource := range described {
		if resource.Err != nil {
			return "", fmt.Errorf("the broker does not tell its settings: %w", resource.Err)
		}
		for _, c := range resource.Configs {
			if c.Key == key {
				return c.MaybeValue(), nil
			}
		}
	}
	return "", fmt.Errorf("the broker does not tell %s", key)
}
