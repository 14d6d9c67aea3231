package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
)

type result struct {
	receipt event.Receipt
	err     error
}

// produce calls Produce and waits until each message has its one result.
func produce(t *testing.T, p *kafka.Publisher, topic string, generation uint64, messages ...*message.Message) []result {
	t.Helper()
	return produceContext(t.Context(), t, p, topic, generation, messages...)
}

func produceContext(
	ctx context.Context, t *testing.T, p *kafka.Publisher, topic string, generation uint64, messages ...*message.Message,
) []result {
	t.Helper()
	return start(ctx, t, p, topic, generation, messages...)()
}

// start calls Produce; the returned function waits for the results.
func start(
	ctx context.Context, t *testing.T, p *kafka.Publisher, topic string, generation uint64, messages ...*message.Message,
) func() []result {
	t.Helper()
	var mu sync.Mutex
	results := make([]result, len(messages))
	times := make([]int, len(messages))
	var all sync.WaitGroup
	all.Add(len(messages))
	p.Produce(ctx, topic, generation, messages, func(i int, r event.Receipt, err error) {
		mu.Lock()
		defer mu.Unlock()
		results[i] = result{r, err}
		if times[i]++; times[i] == 1 {
			all.Done()
		}
	})
	return func() []result {
		t.Helper()
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			require.FailNow(t, "results missing")
		}
		mu.Lock()
		defer mu.Unlock()
		for i, n := range times {
			require.Equal(t, 1, n, "results of message %d", i)
		}
		return append([]result(nil), results...)
	}
}

// keyed makes n messages of one key, with the payloads "from" and up.
func keyed(key string, from, n int) []*message.Message {
	messages := make([]*message.Message, n)
	for i := range messages {
		messages[i] = event.New("test", fmt.Append(nil, from+i), event.PartitionKey(key))
	}
	return messages
}

func payloads(t *testing.T, connection kafka.Connection, topic string) []string {
	t.Helper()
	var all []string
	for _, record := range readTopic(t, connection, topic) {
		all = append(all, string(record.Value))
	}
	return all
}

// numbers is from, from+1, ... as payloads.
func numbers(from, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(from + i)
	}
	return all
}
