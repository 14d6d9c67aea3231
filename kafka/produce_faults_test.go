package kafka_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/kafka"
)

func TestRefusedBatchIsSentAgainLater(t *testing.T) {
	cluster, connection := faulty(t)
	require.NoError(t, cluster.CreateTopic("t", 1, nil))
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection}, nil)
	closed(t, p, err)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.UnknownServerError})
	for _, r := range produce(t, p, "t", 1, keyed("k", 0, 10)...) {
		require.ErrorIs(t, r.err, kerr.UnknownServerError)
		require.False(t, event.IsPermanent(r.err))
	}
	require.ErrorIs(t, produce(t, p, "t", 1, keyed("k", 10, 1)...)[0].err, event.ErrNotAttempted)
	for _, r := range produce(t, p, "t", 2, keyed("k", 0, 11)...) {
		require.NoError(t, r.err)
	}
	require.Equal(t, numbers(0, 11), payloads(t, connection, "t"))
}

func TestBrokersVerdictsAreClassified(t *testing.T) {
	for verdict, check := range map[*kerr.Error]func(*testing.T, error){
		kerr.TopicAuthorizationFailed:   func(t *testing.T, err error) { require.ErrorIs(t, err, kafka.ErrTopicDenied) },
		kerr.ClusterAuthorizationFailed: func(t *testing.T, err error) { require.False(t, event.IsPermanent(err)) },
		kerr.InvalidRecord:              func(t *testing.T, err error) { require.True(t, event.IsPermanent(err)) },
		kerr.MessageTooLarge:            func(t *testing.T, err error) { require.ErrorIs(t, err, kafka.ErrTooLarge) },
	} {
		t.Run(verdict.Message, func(t *testing.T) {
			cluster, connection := faulty(t)
			require.NoError(t, cluster.CreateTopic("t", 1, nil))
			p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection}, nil)
			closed(t, p, err)
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: verdict})
			err = produce(t, p, "t", 1, keyed("k", 0, 1)...)[0].err
			require.ErrorIs(t, err, verdict)
			check(t, err)
		})
	}
}

// passingFaults breaks connections and gives answers that are over soon, while 500 messages of one key are sent, and
// returns what is on the topic.
func passingFaults(t *testing.T, answers ...*kerr.Error) []string {
	t.Helper()
	cluster, connection := faulty(t)
	require.NoError(t, cluster.CreateTopic("t", 2, nil))
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection, ChunkSize: 10}, nil)
	closed(t, p, err)
	for _, answer := range answers {
		cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Err: answer, Count: 3,
			When: func(kmsg.Request) bool { return rand.IntN(6) == 0 },
		})
	}
	drops := 0
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if drops < 3 && rand.IntN(6) == 0 {
			drops++
			return nil, io.EOF, true
		}
		return nil, nil, false
	})
	for _, r := range produce(t, p, "t", 1, keyed("k", 0, 500)...) {
		require.NoError(t, r.err)
	}
	return payloads(t, connection, "t")
}

func TestPassingFaultsNeitherFailNorDuplicate(t *testing.T) {
	require.Equal(t, numbers(0, 500), passingFaults(t, kerr.NotLeaderForPartition, kerr.RequestTimedOut,
		kerr.NotEnoughReplicasAfterAppend, kerr.NotEnoughReplicas, kerr.KafkaStorageError))
}

// A broker that has forgotten the producer can not tell that it has the batch already.
func TestForgottenProducerStartsOverInOrder(t *testing.T) {
	require.Equal(t, numbers(0, 500), firsts(passingFaults(t, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID,
		kerr.RequestTimedOut)))
}

func TestLostAnswerIsNoDuplicate(t *testing.T) {
	cluster, connection := faulty(t)
	require.NoError(t, cluster.CreateTopic("t", 1, nil))
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection}, nil)
	closed(t, p, err)
	// Written, but answered with an error: the same batch is sent again.
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut})
	for i, r := range produce(t, p, "t", 1, keyed("k", 0, 10)...) {
		require.NoError(t, r.err)
		require.EqualValues(t, i, r.receipt.Offset)
	}
	require.Equal(t, numbers(0, 10), payloads(t, connection, "t"))
}

func TestSilentBrokerIsAnErrorAndNotTheEnd(t *testing.T) {
	cluster, connection := faulty(t)
	require.NoError(t, cluster.CreateTopic("t", 1, nil))
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection, DeliveryTimeout: 500 * time.Millisecond}, nil)
	closed(t, p, err)
	require.NoError(t, produce(t, p, "t", 1, keyed("k", 0, 1)...)[0].err)

	var silent atomic.Bool
	silent.Store(true)
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return nil, nil, silent.Load() // handled without a response
	})
	began := time.Now()
	for i, r := range produce(t, p, "t", 1, keyed("k", 1, 2000)...) {
		require.Error(t, r.err)
		require.Equal(t, i >= 1000, errors.Is(r.err, event.ErrNotAttempted), "only the first chunk was sent")
	}
	require.Less(t, time.Since(began), 5*time.Second)

	silent.Store(false)
	for generation := uint64(2); ; generation++ {
		results := produce(t, p, "t", generation, keyed("k", 1, 2000)...)
		if !slices.ContainsFunc(results, func(r result) bool { return r.err != nil }) {
			break
		}
		require.Less(t, time.Since(began), 30*time.Second, "works again without a restart")
	}
	require.Equal(t, numbers(0, 2001), firsts(payloads(t, connection, "t")))
}

func TestCloseGivesUpOnASilentBroker(t *testing.T) {
	cluster, connection := faulty(t)
	require.NoError(t, cluster.CreateTopic("t", 1, nil))
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return nil, nil, true
	})
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection, ChunkSize: 1, CloseTimeout: 200 * time.Millisecond}, nil)
	require.NoError(t, err)
	first := start(t.Context(), t, p, "t", 1, keyed("k", 0, 1)...)
	later := start(t.Context(), t, p, "t", 2, keyed("k", 1, 1)...)
	missing := start(t.Context(), t, p, "missing", 2, keyed("k", 1, 1)...)
	began := time.Now()
	require.NoError(t, p.Close())
	require.Less(t, time.Since(began), 5*time.Second)
	require.Error(t, first()[0].err)
	require.NotErrorIs(t, first()[0].err, event.ErrNotAttempted, "it may have been written")
	require.ErrorIs(t, later()[0].err, event.ErrNotAttempted)
	require.ErrorIs(t, later()[0].err, kafka.ErrClosed)
	require.Error(t, missing()[0].err)
}

func TestOneRequestCarriesWhatWaitsForItsBroker(t *testing.T) {
	cluster, connection := faulty(t)
	require.NoError(t, cluster.CreateTopic("t", 6, nil))
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection, ChunkSize: 1}, nil)
	closed(t, p, err)
	var requests, widest atomic.Int32
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		requests.Add(1)
		for _, topic := range request.(*kmsg.ProduceRequest).Topics {
			widest.Store(max(widest.Load(), int32(len(topic.Partitions))))
		}
		return nil, nil, false
	})
	var messages []*message.Message
	for key := range 60 {
		messages = append(messages, keyed(strconv.Itoa(key), 0, 10)...)
	}
	for _, r := range produce(t, p, "t", 1, messages...) {
		require.NoError(t, r.err)
	}
	require.Less(t, requests.Load(), int32(len(messages)))
	require.Greater(t, widest.Load(), int32(1))
}

// Partitions move among three brokers while messages are sent.
func TestLeadersMoveUnderLoad(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	connection := kafka.Connection{Brokers: cluster.ListenAddrs()}
	require.NoError(t, cluster.CreateTopic("t", 6, nil))
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection, ChunkSize: 20}, nil)
	closed(t, p, err)
	var waits []func() []result
	for key := range 12 {
		waits = append(waits, start(t.Context(), t, p, "t", 1, keyed(strconv.Itoa(key), 0, 300)...))
		cluster.ShufflePartitionLeaders()
	}
	for _, wait := range waits {
		for _, r := range wait() {
			require.NoError(t, r.err)
		}
	}
	byKey := map[string][]string{}
	for _, record := range readTopic(t, connection, "t") {
		byKey[string(record.Key)] = append(byKey[string(record.Key)], string(record.Value))
	}
	require.Len(t, byKey, 12)
	for _, values := range byKey {
		require.Equal(t, numbers(0, 300), values)
	}
}

func TestDeadBrokerIsAnErrorAndNotTheEnd(t *testing.T) {
	cluster, connection := faulty(t)
	require.NoError(t, cluster.CreateTopic("t", 1, nil))
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection, DeliveryTimeout: 500 * time.Millisecond}, nil)
	closed(t, p, err)
	var dead atomic.Bool
	dead.Store(true)
	cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return nil, io.EOF, dead.Load()
	})
	results := produce(t, p, "t", 1, keyed("k", 0, 5)...)
	require.Error(t, results[0].err)
	require.False(t, event.IsPermanent(results[0].err))
	dead.Store(false)
	require.Eventually(t, func() bool { return p.Publish("t", keyed("k", 0, 1)...) == nil }, 20*time.Second, 10*time.Millisecond)
}

// Random refusals under a caller that sends again from the first unsettled message on, with the next generation: the
// first occurrences on the topic are in order, whatever happens.
func TestLaneKeepsOrderUnderErrors(t *testing.T) {
	cluster, connection := faulty(t)
	require.NoError(t, cluster.CreateTopic("t", 1, nil))
	p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection, ChunkSize: 5, DeliveryTimeout: time.Second}, nil)
	closed(t, p, err)
	for _, fault := range []*kerr.Error{kerr.UnknownServerError, kerr.PolicyViolation, kerr.NotLeaderForPartition, kerr.RequestTimedOut} {
		cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Err: fault, Count: -1,
			When: func(kmsg.Request) bool { return rand.IntN(16) == 0 },
		})
	}
	const all = 400
	for next, generation := 0, uint64(1); next < all; generation++ {
		first := start(t.Context(), t, p, "t", generation, keyed("k", next, all-next)...)
		for _, r := range first() {
			if r.err != nil {
				break
			}
			next++
		}
	}
	require.Equal(t, numbers(0, all), firsts(payloads(t, connection, "t")))
}

func firsts(values []string) []string {
	seen := map[string]bool{}
	var first []string
	for _, v := range values {
		if !seen[v] {
			seen[v] = true
			first = append(first, v)
		}
	}
	return first
}

func TestCloseUnderLoadReportsEveryMessage(t *testing.T) {
	_, connection := faulty(t)
	for range 5 {
		topic := newTopic(t, connection, 6, nil)
		p, err := kafka.NewPublisher(kafka.PublisherConfig{Connection: connection, ChunkSize: 3}, nil)
		require.NoError(t, err)
		stopped := make(chan int)
		for w := range 4 {
			go func() {
				sent := 0
				for i := 0; ; i++ {
					err := p.Publish(topic, keyed(strconv.Itoa(w), i, 5)...)
					if err != nil {
						stopped <- sent
						return
					}
					sent += 5
				}
			}()
		}
		require.Eventually(t, func() bool { return len(readTopic(t, connection, topic)) > 100 }, 10*time.Second, time.Millisecond)
		require.NoError(t, p.Close())
		sent := 0
		for range 4 {
			sent += <-stopped
		}
		require.Len(t, readTopic(t, connection, topic), sent)
	}
}
