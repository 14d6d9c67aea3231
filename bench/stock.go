package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
)

const (
	nameStock      = "watermill-forwarder"
	nameStockTuned = "watermill-forwarder-tuned"

	// stockMarker is the environment variable that makes this executable Watermill's forwarder; stockSettings is its value.
	stockMarker = "MILLRACE_BENCH_STOCK"

	// forwarderTopic and keyMetadata are where messages wait and what their partition key is called.
	forwarderTopic = "outbox"
	keyMetadata    = "partition_key"

	tunedBatch    = 1000
	tunedInterval = 10 * time.Millisecond
)

// stock is Watermill's forwarder from watermill-sql to watermill-kafka. Both ways to set it up key the records by aggregate:
// without keys there would be no order to keep.
type stock struct{ tuned bool }

type stockSettings struct {
	Database string   `json:"database"`
	Brokers  []string `json:"brokers"`
	Tuned    bool     `json:"tuned"`
}

func (s stock) name() string {
	if s.tuned {
		return nameStockTuned
	}
	return nameStock
}

func (s stock) settings() string {
	if s.tuned {
		return fmt.Sprintf("watermill-sql v3 in batches of %d, polling and resending every %s; watermill-kafka v3 with acks=all, idempotent", tunedBatch, tunedInterval)
	}
	return "watermill-sql v3 and watermill-kafka v3 (acks=1), default settings"
}

func (s stock) events(o options) int { return min(o.events, o.stockEvents) }

func (s stock) schema() wsql.DefaultPostgreSQLSchema {
	if s.tuned {
		return wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: tunedBatch}
	}
	return wsql.DefaultPostgreSQLSchema{}
}

func (s stock) fill(ctx context.Context, t *turn) error {
	subscriber, err := s.subscriber(t.db)
	if err != nil {
		return err
	}
	if err := errors.Join(subscriber.SubscribeInitialize(forwarderTopic), subscriber.Close()); err != nil {
		return err
	}
	return batches(t.events, func(numbers []int) error { return s.write(ctx, t, numbers) })
}

// write commits one transaction of messages, the way the forwarder's publisher writes them.
func (s stock) write(ctx context.Context, t *turn, numbers []int) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing to do after COMMIT
	inner, err := wsql.NewPublisher(tx, wsql.PublisherConfig{SchemaAdapter: s.schema()}, nil)
	if err != nil {
		return err
	}
	var messages []*message.Message
	for _, n := range numbers {
		msg := message.NewMessage(eventID(n), payload(n))
		msg.Metadata.Set("event_type", eventType)
		msg.Metadata.Set(keyMetadata, aggregate(n))
		messages = append(messages, msg)
	}
	publisher := forwarder.NewPublisher(inner, forwarder.PublisherConfig{ForwarderTopic: forwarderTopic})
	if err := publisher.Publish(t.topic, messages...); err != nil {
		return err
	}
	return tx.Commit()
}

func (s stock) subscriber(db *sql.DB) (*wsql.Subscriber, error) {
	config := wsql.SubscriberConfig{
		SchemaAdapter: s.schema(), OffsetsAdapter: wsql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true,
	}
	if s.tuned {
		config.PollInterval, config.ResendInterval = tunedInterval, tunedInterval
	}
	return wsql.NewSubscriber(db, config, nil)
}

func (s stock) command(t *turn) (*exec.Cmd, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	settings, err := json.Marshal(stockSettings{t.database.String(), t.brokers, s.tuned})
	if err != nil {
		return nil, err
	}
	command := exec.Command(executable) //nolint:gosec,noctx // itself; stop ends it, in its own time
	command.Env = append(os.Environ(), stockMarker+"="+string(settings))
	return command, nil
}

func (stock) clean(context.Context, *turn) error { return nil }

// runStock is Watermill's forwarder as a process. It returns the exit code.
func runStock(settings string) int {
	var s stockSettings
	err := json.Unmarshal([]byte(settings), &s)
	if err == nil {
		err = forward(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return codeError
	}
	return 0
}

func forward(s stockSettings) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logger := watermill.NewStdLogger(false, false)
	db, err := sql.Open("postgres", s.Database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	subscriber, err := stock{s.Tuned}.subscriber(db)
	if err != nil {
		return err
	}
	config := wkafka.DefaultSaramaSyncPublisherConfig()
	if s.Tuned {
		config.Version = sarama.V3_6_0_0
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1 // which sarama wants for that
	}
	publisher, err := wkafka.NewPublisher(wkafka.PublisherConfig{
		Brokers: s.Brokers, OverwriteSaramaConfig: config,
		Marshaler: wkafka.NewWithPartitioningMarshaler(func(_ string, msg *message.Message) (string, error) {
			return msg.Metadata.Get(keyMetadata), nil
		}),
	}, logger)
	if err != nil {
		return err
	}
	relay, err := forwarder.NewForwarder(subscriber, publisher, logger, forwarder.Config{ForwarderTopic: forwarderTopic})
	if err != nil {
		return errors.Join(err, publisher.Close())
	}
	return errors.Join(relay.Run(ctx), publisher.Close())
}
