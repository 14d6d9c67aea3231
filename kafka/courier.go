package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxRequestBytes bounds a request. One batch always goes; brokers take 100 MiB.
	maxRequestBytes = 32 << 20
	// replicationTimeout is how long the broker may wait for its replicas before it answers.
	replicationTimeout = 10 * time.Second
)

// courier takes the batches of every lane whose partition a broker leads to that broker: one request at a time, with all
// that waited for it, because a broker answers the requests of a connection one after the other.
type courier struct {
	publisher *Publisher
	broker    int32

	mu      sync.Mutex
	queue   []*parcel
	running bool
}

// parcel is one batch on its way.
type parcel struct {
	topic     string
	id        [16]byte
	partition int32
	batch     []byte
	sent      bool        // guarded by the courier's mutex
	answer    chan answer // takes one
}

type answer struct {
	base int64
	err  error
}

// deliver waits for the broker's answer to the batch. With an error, written says whether the broker may have it.
func (c *courier) deliver(ctx context.Context, p *parcel) (base int64, written bool, err error) {
	c.mu.Lock()
	c.queue = append(c.queue, p)
	if !c.running {
		c.running = true
		c.publisher.sending.Add(1) // a lane calls, so Close still waits
		c.publisher.start(c.run)
	}
	c.mu.Unlock()
	select {
	case a := <-p.answer:
		return a.base, mayBeWritten(a.err), a.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case a := <-p.answer:
		return a.base, mayBeWritten(a.err), a.err
	default:
	}
	if i := slices.Index(c.queue, p); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
	}
	return 0, p.sent, fmt.Errorf("no answer from broker %d: %w", c.broker, ctx.Err())
}

// refusedUnwritten are the broker's answers after which the batch is certainly not in its log. Any other, a lost leadership or a
// failing disk among them, can also be given after the batch was appended; taking it for a refusal would give the batch's
// sequence numbers to the next one, which the broker would then take for a repetition and drop.
var refusedUnwritten = []error{
	kerr.CorruptMessage, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp,
	kerr.UnsupportedForMessageFormat, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	kerr.NotEnoughReplicas, kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping,
	kerr.UnknownProducerID, kerr.ProducerFenced,
}

// mayBeWritten says whether the batch may be in the broker's log, or may still get there.
func mayBeWritten(err error) bool {
	return err != nil && !slices.ContainsFunc(refusedUnwritten, func(refusal error) bool { return errors.Is(err, refusal) })
}

// run sends until nothing waits.
func (c *courier) run(ctx context.Context) {
	defer c.publisher.sending.Done()
	for {
		parcels := c.take()
		if len(parcels) == 0 {
			return
		}
		c.send(ctx, parcels)
	}
}

func (c *courier) take() []*parcel {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, bytes := 0, 0
	for n < len(c.queue) && (n == 0 || bytes+len(c.queue[n].batch) <= maxRequestBytes) {
		bytes += len(c.queue[n].batch)
		c.queue[n].sent = true
		n++
	}
	parcels := c.queue[:n:n]
	c.queue = slices.Clone(c.queue[n:])
	c.running = n > 0
	return parcels
}

func (c *courier) send(ctx context.Context, parcels []*parcel) {
	timeout := c.publisher.config.DeliveryTimeout
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request := kmsg.NewPtrProduceRequest()
	request.Acks = -1
	request.TimeoutMillis = int32(min(timeout, replicationTimeout).Milliseconds()) //nolint:gosec // bounded
	request.Topics = requestTopics(parcels)

	// Not retried here: the lanes look for the leader first.
	response, err := c.publisher.client.Broker(int(c.broker)).Request(ctx, request)
	if err != nil {
		err = fmt.Errorf("broker %d: %w", c.broker, err)
	}
	for _, p := range parcels {
		a := answer{err: err}
		if err == nil {
			a = p.find(response.(*kmsg.ProduceResponse))
		}
		p.answer <- a
	}
}

func requestTopics(parcels []*parcel) []kmsg.ProduceRequestTopic {
	var topics []kmsg.ProduceRequestTopic
	for _, p := range parcels {
		i := slices.IndexFunc(topics, func(t kmsg.ProduceRequestTopic) bool { return t.Topic == p.topic && t.TopicID == p.id })
		if i < 0 {
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic, topic.TopicID = p.topic, p.id // the protocol version decides which of them is sent
			i, topics = len(topics), append(topics, topic)
		}
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Partition, partition.Records = p.partition, p.batch
		topics[i].Partitions = append(topics[i].Partitions, partition)
	}
	return topics
}

func (p *parcel) find(response *kmsg.ProduceResponse) answer {
	for _, topic := range response.Topics {
		if topic.Topic != p.topic && (topic.TopicID != p.id || p.id == [16]byte{}) {
			continue
		}
		for _, partition := range topic.Partitions {
			if partition.Partition == p.partition {
				return answer{base: partition.BaseOffset, err: partitionError(partition)}
			}
		}
	}
	return answer{err: fmt.Errorf("no result for partition %d in the broker's answer", p.partition)}
}

func partitionError(partition kmsg.ProduceResponseTopicPartition) error {
	err := kerr.ErrorForCode(partition.ErrorCode)
	if err != nil && partition.ErrorMessage != nil {
		return fmt.Errorf("%w: %s", err, *partition.ErrorMessage)
	}
	return err
}
