package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/kafka"
)

type consumeFlags struct {
	topic   string
	from    string
	max     int
	timeout time.Duration
}

// consumedRecord is one line of output.
type consumedRecord struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Offset    int64          `json:"offset"`
	Time      time.Time      `json:"time"`
	Key       any            `json:"key"`
	EventID   string         `json:"event_id"`
	Headers   map[string]any `json:"headers"`
	payloadJSON
}

func newConsume(a *app) *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume --topic TOPIC",
		Short: "Print a topic's records as JSON lines",
		Long: `Prints the records of a topic as JSON lines, with their headers decoded, as they come in: in order within a partition.
It joins no consumer group, so nobody's handlers notice. It goes on until Ctrl-C, --max records, or --timeout without
a new one; exit code 4 if that was before --max.`,
		Args: cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error { return a.consume(cmd, f) }),
	}
	cmd.Flags().StringVar(&f.topic, "topic", "", "topic to read (required)")
	cmd.Flags().StringVar(&f.from, "from", "oldest", "where to begin: oldest or newest")
	cmd.Flags().IntVar(&f.max, "max", 0, "stop after so many records, 0 = never")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "stop when so long nothing came, 0 = never")
	settingsFlags(cmd)
	kafkaFlags(cmd, "embedded")
	stateFlags(cmd)
	return cmd
}

func (a *app) consume(cmd *cobra.Command, f consumeFlags) (err error) {
	ctx := cmd.Context()
	a.resume = "Nothing was changed."
	start, known := map[string]kgo.Offset{
		"oldest": kgo.NewOffset().AtStart(), "newest": kgo.NewOffset().AtEnd(),
	}[f.from]
	switch {
	case f.topic == "":
		return usage{errors.New("--topic is missing")}
	case event.ValidateTopic(f.topic) != nil:
		return usage{errors.New("--topic: no topic name that Kafka accepts")}
	case !known:
		return usage{fmt.Errorf("--from %q is neither oldest nor newest", f.from)}
	case f.max < 0 || f.timeout < 0:
		return usage{errors.New("--max and --timeout can not be negative")}
	}
	c, s, err := a.prepare(cmd, need{kafka: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	brokers, err := connection(c.Kafka)
	if err != nil {
		return err
	}
	if err := findTopic(ctx, brokers, f.topic); err != nil {
		return err
	}
	client, err := broker.NewClient(brokers, kgo.ConsumeTopics(f.topic), kgo.ConsumeResetOffset(start))
	if err != nil {
		return err
	}
	defer client.Close()
	return a.printRecords(ctx, client, f)
}

// findTopic says so if the topic does not exist; consuming would wait for it for ever.
func findTopic(ctx context.Context, brokers kafka.Connection, topic string) error {
	if err := reachBrokers(ctx, brokers); err != nil {
		return err
	}
	client, err := broker.NewClient(brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	if !topics.Has(topic) {
		return fmt.Errorf("topic %s: %w", topic, inbox.ErrNotFound)
	}
	return nil
}

func (a *app) printRecords(ctx context.Context, client *kgo.Client, f consumeFlags) error {
	encoder := json.NewEncoder(a.stdout)
	encoder.SetEscapeHTML(false)
	printed := 0
	for {
		poll, cancel := ctx, context.CancelFunc(func() {})
		if f.timeout > 0 {
			poll, cancel = context.WithTimeout(ctx, f.timeout)
		}
		fetches := client.PollFetches(poll)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, r := range fetches.Records() {
			if err := encoder.Encode(newConsumedRecord(r)); err != nil {
				return err
			}
			if printed++; printed == f.max {
				return nil
			}
		}
		if err := fetches.Err0(); errors.Is(err, context.DeadlineExceeded) && poll.Err() != nil {
			if printed < f.max {
				return fmt.Errorf("%w: %d of %d records, then nothing came for %s", errPartly, printed, f.max, f.timeout)
			}
			return nil
		}
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("read %s: %w", failed.Topic, failed.Err)
		}
	}
}

func newConsumedRecord(r *kgo.Record) consumedRecord {
	headers := map[string]any{}
	for _, h := range r.Headers {
		headers[h.Key] = textOrBase64(h.Value)
	}
	return consumedRecord{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp.UTC(), Key: textOrBase64(r.Key),
		EventID: broker.Header(r, event.IDKey), Headers: headers, payloadJSON: showPayload(r.Value),
	}
}
