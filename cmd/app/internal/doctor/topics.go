package doctor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// maxTopics bounds how many topics are looked at.
const maxTopics = 100

//go:embed topics.sql
var topicsSQL string

var topicChecks = []string{
	"topic.exists", "topic.replication", "topic.min_insync_replicas", "topic.max_message_bytes", "topic.cleanup_policy", "topic.timestamp_type",
}

var topics = subject{
	names: nil, // of each topic
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		if e.admin == nil {
			return []Check{skipped("topic", "Kafka is not reached")}, nil
		}
		found := []Check{}
		names, err := e.topics(ctx)
		if err != nil {
			found = append(found, skipped("topic", "which topics the outbox has events for is not known: %s", e.reason(ctx, err)))
		}
		switch {
		case len(names) > maxTopics:
			found = append(found, skipped("topic", "%d of %d topics are looked at: name others with --topic", maxTopics, len(names)))
			names = names[:maxTopics]
		case len(names) == 0 && err == nil:
			return append(found, skipped("topic", "no event names a topic yet: name one with --topic")), nil
		case len(names) == 0:
			return found, nil
		}
		listed, err := e.admin.ListTopics(ctx, names...)
		if err != nil {
			return append(found, skipped("topic", "%s", e.reason(ctx, err))), nil
		}
		configs, untold := e.admin.DescribeTopicConfigs(ctx, names...)
		if untold != nil {
			untold = errors.New(e.reason(ctx, untold))
		}
		for _, name := range names {
			found = append(found, e.topic(name, listed[name], configs, untold)...)
		}
		return found, nil
	},
}

// topics are those asked for and then those the outbox has events for.
func (e *examination) topics(ctx context.Context) ([]string, error) {
	names := slices.Clone(e.config.Topics)
	if e.DB == nil {
		return names, errors.New("PostgreSQL is not reached")
	}
	rows, err := e.DB.QueryContext(ctx, e.sql(topicsSQL))
	if err != nil {
		return names, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return names, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, rows.Err()
}

// topic makes the checks of one topic; untold is why there may be no settings.
func (e *examination) topic(name string, detail kadm.TopicDetail, configs kadm.ResourceConfigs, untold error) []Check {
	var found []Check
	exists, there := topicExists(name, detail, e.config.Publisher.AllowAutoTopicCreation)
	found = append(found, exists)
	if there {
		settings, err := topicSettings(name, configs, untold)
		replicas := detail.Partitions.NumReplicas()
		found = append(found, topicReplication(name, replicas))
		if err == nil {
			found = append(found,
				topicMinInSync(name, replicas, settings),
				topicMaxBytes(name, e.config.Publisher.MaxMessageBytes, settings),
				topicCleanup(name, settings),
				topicTimestamps(name, settings))
		} else {
			for _, check := range topicChecks[2:] {
				found = append(found, skipped(check+":"+name, "%s", err))
			}
		}
		return found
	}
	for _, check := range topicChecks[1:] {
		found = append(found, skipped(check+":"+name, "the topic is not there, or not readable"))
	}
	return found
}

func topicExists(name string, detail kadm.TopicDetail, create bool) (check Check, there bool) {
	check.Name = "topic.exists:" + name
	switch {
	case errors.Is(detail.Err, kerr.UnknownTopicOrPartition) || detail.Err == nil && len(detail.Partitions) == 0:
		if create {
			return warning(check.Name, "it is not there; the relay has the broker make it with the cluster's defaults, see broker.auto_create_topics"), false
		}
		return failed(check.Name, "it is not there, so its events wait: create it, or send them elsewhere with \"millrace outbox edit\""), false
	case errors.Is(detail.Err, kerr.TopicAuthorizationFailed):
		return failed(check.Name, "this user may not look at it: allow it Describe and Write"), false
	case detail.Err != nil:
		return skipped(check.Name, "the broker says: %s", detail.Err), false
	}
	for _, p := range detail.Partitions.Sorted() {
		if p.Leader < 0 || errors.Is(p.Err, kerr.LeaderNotAvailable) {
			return failed(check.Name, "partition %d of %d has no leader, so its events wait: bring its brokers back", p.Partition, len(detail.Partitions)), true
		}
	}
	return ok(check.Name, "partitions: %d; changing that moves keys", len(detail.Partitions)), true
}

func topicReplication(topic string, replicas int) Check {
	name := "topic.replication:" + topic
	if replicas == 1 {
		return warning(name, "1: a broker that is lost takes its records along; use 3")
	}
	return ok(name, "%d", replicas)
}

func topicMinInSync(topic string, replicas int, settings map[string]string) Check {
	name := "topic.min_insync_replicas:" + topic
	least, err := strconv.Atoi(settings["min.insync.replicas"])
	switch {
	case err != nil:
		return skipped(name, "the broker does not tell min.insync.replicas")
	case least > replicas:
		return failed(name, "%d, with only %d replicas: every record is refused; lower it or add replicas", least, replicas)
	case replicas >= 3 && least < 2:
		return warning(name, "%d of %d: acks=all may be one broker's word; set min.insync.replicas=2", least, replicas)
	case replicas > 1 && least == replicas:
		return warning(name, "%d of %d: one broker that is away stops all sending; set it one lower, or add a replica", least, replicas)
	}
	return ok(name, "%d of %d", least, replicas)
}

func topicMaxBytes(topic string, sent int, settings map[string]string) Check {
	name := "topic.max_message_bytes:" + topic
	taken, err := strconv.Atoi(settings["max.message.bytes"])
	switch {
	case err != nil:
		return skipped(name, "the broker does not tell max.message.bytes")
	case sent > taken:
		return failed(name, "the topic takes %d and the relay sends up to %d: batches are refused and split; set MILLRACE_KAFKA_MAX_MESSAGE_BYTES to %d, or raise the topic's max.message.bytes", taken, sent, taken)
	case sent < taken:
		return ok(name, "the topic takes %d; the relay sends %d at most and quarantines what is larger", taken, sent)
	}
	return ok(name, "%d, the relay's limit too", taken)
}

func topicCleanup(topic string, settings map[string]string) Check {
	name, policy := "topic.cleanup_policy:"+topic, settings["cleanup.policy"]
	switch policy {
	case "":
		return skipped(name, "the broker does not tell cleanup.policy")
	case "delete":
		return ok(name, "delete")
	}
	return warning(name, "%s: only the last event of a key is kept, one without payload is a tombstone and removes its key, and one without key is refused; set delete, unless the topic is meant as a table", policy)
}

func topicTimestamps(topic string, settings map[string]string) Check {
	name, kind := "topic.timestamp_type:"+topic, settings["message.timestamp.type"]
	switch kind {
	case "":
		return skipped(name, "the broker does not tell message.timestamp.type")
	case "LogAppendTime":
		return ok(name, "LogAppendTime: records bear the broker's time, also those that were sent before")
	}
	return ok(name, "%s: records bear the producer's time", kind)
}

func topicSettings(name string, configs kadm.ResourceConfigs, untold error) (map[string]string, error) {
	for _, resource := range configs {
		if resource.Name != name {
			continue
		}
		if resource.Err != nil {
			return nil, fmt.Errorf("the broker does not tell the topic's settings: %w", resource.Err)
		}
		settings := map[string]string{}
		for _, c := range resource.Configs {
			settings[c.Key] = c.MaybeValue()
		}
		return settings, nil
	}
	if untold == nil {
		untold = errors.New("no answer names it")
	}
	return nil, fmt.Errorf("the broker does not tell the topic's settings: %w", untold)
}
