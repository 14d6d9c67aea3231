package integration_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
)

const (
	smallLimit = 2000 // bytes of a record batch
	largeSize  = 5000
)

// aggregateOf writes the first three events of an aggregate, the first of them too large for a topic with a small limit.
func aggregateOf(order string, attributes ...event.Attribute) []*message.Message {
	var messages []*message.Message
	for version := 1; version <= 3; version++ {
		payload := []byte("{}")
		if version == 1 {
			payload = []byte(`"` + strings.Repeat("x", largeSize) + `"`)
		}
		id := order + "-v" + string(rune('0'+version))
		messages = append(messages, event.New("order.changed", payload,
			append([]event.Attribute{event.Aggregate("order", order, int64(version)), event.WithID(id)}, attributes...)...))
	}
	return messages
}

func (s *system) limitTopic(bytes string) {
	s.administer(func(ctx context.Context, admin *kadm.Client) error {
		_, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &bytes}}, s.topic)
		return err
	})
}

// states are those of events with a parked row.
func (s *system) states() []string {
	return s.column(`select event_id || ' ' || state from millrace.outbox_parked order by entry`)
}

// Whoever refuses an event, the broker or the client before it, what comes after it under its key is not to be seen before it.
func TestEventThatIsTooLargeKeepsItsPlace(t *testing.T) {
	for name, refuse := range map[string]func(s *system, config *kafka.PublisherConfig) (mend func() *kafka.Publisher){
		"for the topic": func(s *system, config *kafka.PublisherConfig) func() *kafka.Publisher {
			s.limitTopic("2000")
			return func() *kafka.Publisher {
				s.limitTopic("1048588")
				return nil
			}
		},
		"for the client": func(s *system, config *kafka.PublisherConfig) func() *kafka.Publisher {
			config.MaxMessageBytes = smallLimit
			return func() *kafka.Publisher { return s.producer(kafka.PublisherConfig{}) }
		},
	} {
		for kind, attributes := range map[string][]event.Attribute{"": nil, " with an empty key": {event.PartitionKey("")}} {
			t.Run(name+kind, func(t *testing.T) {
				s := newSystem(t, 3)
				config := kafka.PublisherConfig{}
				mend := refuse(s, &config)
				s.publish(s.topic, slices.Concat(aggregateOf("a", attributes...), []*message.Message{orderEvent("b", 1), orderEvent("c", 1)})...)
				relay := quick()
				relay.MinHold, relay.MaxHold, relay.MaxAttempts = 100*time.Millisecond, 200*time.Millisecond, 1000
				f := s.relay(s.producer(config), relay)
				s.await(func() bool {
					return len(s.wire()) == 2 && s.count(`select coalesce(max(attempts), 0) from millrace.outbox_parked`) > 2
				})
				require.ElementsMatch(t, []string{"b-v1", "c-v1"}, s.wire(), "others go on, and nothing of its own aggregate")
				require.Equal(t, []string{"too_large"}, s.column(`select error_class from millrace.outbox_parked where event_id = 'a-v1'`))
				s.publish(s.topic, event.New("order.changed", []byte("{}"), append([]event.Attribute{event.Aggregate("order", "a", 4), event.WithID("a-v4")}, attributes...)...))
				s.await(func() bool { return len(s.states()) == 4 })
				require.Equal(t, []string{"a-v2 blocked", "a-v3 blocked", "a-v4 blocked"}, s.states()[1:])

				if other := mend(); other != nil {
					require.NoError(t, f.Close())
					s.relay(other, relay)
				}
				s.awaitSent()
				var mine []string
				for _, record := range testkit.ReadTopic(t, s.topic) {
					if id := header(record, event.IDKey); strings.HasPrefix(id, "a-") {
						mine = append(mine, id)
					}
				}
				require.Equal(t, []string{"a-v1", "a-v2", "a-v3", "a-v4"}, mine)
				require.Empty(t, s.states())
			})
		}
	}
}

// Under policy skip they pass, and that they did is on record.
func TestEventThatIsTooLargeIsPassedWhereThePolicySaysSo(t *testing.T) {
	s := newSystem(t, 3)
	s.limitTopic("2000")
	s.publish(s.topic, aggregateOf("a")...)
	relay := quick()
	relay.MaxAttempts, relay.Policies = 1, map[string]outbox.Policy{s.topic: outbox.Skip}
	s.relay(s.producer(kafka.PublisherConfig{}), relay)
	s.await(func() bool { return len(s.wire()) == 2 })
	require.Equal(t, []string{"a-v2", "a-v3"}, s.wire())
	s.await(func() bool { return slices.Equal(s.states(), []string{"a-v1 quarantined"}) })
	require.Equal(t, []string{"a-v1"}, s.column(`select subject from millrace.audit where action = 'outbox.skip'`))

	// Repaired, it comes late.
	s.limitTopic("1048588")
	operator, err := outbox.NewOperator(s.db, outbox.OperatorConfig{Actor: "ann"})
	require.NoError(t, err)
	_, err = operator.Retry(t.Context(), outbox.Operation{EventIDs: []string{"a-v1"}, Reason: "limit raised"})
	require.NoError(t, err)
	s.awaitSent()
	require.Equal(t, []string{"a-v2", "a-v3", "a-v1"}, s.wire())
}
