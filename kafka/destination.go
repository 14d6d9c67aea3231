package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-go/millrace/event"
)

// destination is a topic that messages are sent to: its partitions, their leaders and their lanes.
type destination struct {
	publisher *Publisher
	topic     string
	loading   chan struct{} // a token: one metadata request at a time

	mu         sync.Mutex
	id         [16]byte
	leaders    []int32 // broker ids by partition; negative while there is none
	loaded     time.Time
	count      int32 // partitions that messages are spread over; 0 until known and confirmed by CheckPartitions
	refreshing bool

	// Messages wait here while the count is not known; resolving then says that a goroutine finds it.
	resolving bool
	waiting   []item
	hold      hold
	lanes     map[int32]*lane
}

func (d *destination) submit(items []item) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count == 0 || d.resolving {
		d.waiting = append(d.waiting, items...)
		if !d.resolving {
			d.resolving = true
			d.publisher.resolving.Add(1)
			d.publisher.start(d.resolve)
		}
		return
	}
	if !d.refreshing && time.Since(d.loaded) > d.publisher.config.MetadataMaxAge {
		d.refreshing = true
		d.publisher.resolving.Add(1)
		d.publisher.start(d.refresh)
	}
	d.place(items)
}

// resolve finds the partitions and places the messages that wait for them, or refuses those.
func (d *destination) resolve(ctx context.Context) {
	defer d.publisher.resolving.Done()
	for {
		_, err := d.partitions(ctx)
		d.mu.Lock()
		waiting := d.waiting
		d.waiting = nil
		if err == nil {
			d.place(waiting)
			d.resolving = false
			d.mu.Unlock()
			return
		}
		errs := d.refusals(waiting, err)
		d.mu.Unlock()
		for i, it := range waiting {
			it.refuse(errs[i])
		}
		d.mu.Lock()
		d.resolving = len(d.waiting) > 0
		more := d.resolving
		d.mu.Unlock()
		if !more {
			return
		}
	}
}

// refusals fails the lines of the messages: their later messages must not pass once the topic is found.
func (d *destination) refusals(items []item, err error) []error {
	errs := make([]error, len(items))
	for i, it := range items {
		errs[i] = err
		if d.hold.refuses(it.line) {
			errs[i] = fmt.Errorf("%w: %w", event.ErrNotAttempted, err)
		}
		d.hold.fail(it.line)
	}
	return errs
}

// refresh learns of partitions that were added.
func (d *destination) refresh(ctx context.Context) {
	defer d.publisher.resolving.Done()
	ctx, cancel := context.WithTimeout(ctx, d.publisher.config.DeliveryTimeout)
	defer cancel()
	err := d.load(ctx)
	d.mu.Lock()
	d.refreshing = false
	d.loaded = time.Now() // also after an error: the next attempt is due after MetadataMaxAge
	d.mu.Unlock()
	if err != nil {
		d.publisher.logger.Info("Topic metadata not refreshed", watermill.LogFields{"topic": d.topic, "error": err.Error()})
	}
}

// place puts the messages in the lanes of their partitions. The caller holds the mutex, so that the messages of a call
// stay together.
func (d *destination) place(items []item) {
	var order []*lane
	byLane := map[*lane][]item{}
	for _, it := range items {
		if d.hold.refuses(it.line) && it.err == nil {
			it.err = errBehind
		}
		l := d.lane(d.publisher.config.Partitioner.partition(it.record.Key, it.eventID, int(d.count)))
		if _, ok := byLane[l]; !ok {
			order = append(order, l)
		}
		byLane[l] = append(byLane[l], it)
	}
	for _, l := range order {
		l.push(byLane[l])
	}
}

func (d *destination) lane(partition int32) *lane {
	l, ok := d.lanes[partition]
	if !ok {
		l = newLane(d, partition)
		d.lanes[partition] = l
		d.publisher.sending.Add(1)
		d.publisher.start(l.run)
	}
	return l
}

func (d *destination) closeLanes() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lanes {
		l.close()
	}
}

// partitions returns the count, asking the cluster when it is not known or not confirmed.
func (d *destination) partitions(ctx context.Context) (int32, error) {
	ctx, cancel := context.WithTimeout(ctx, d.publisher.config.DeliveryTimeout)
	defer cancel()
	for {
		d.mu.Lock()
		count := d.count
		d.mu.Unlock()
		if count > 0 {
			return count, nil
		}
		if err := d.load(ctx); err != nil {
			return 0, err
		}
	}
}

// leader returns the broker that leads a partition and the topic's id, waiting for an election.
func (d *destination) leader(ctx context.Context, partition int32) (broker int32, id [16]byte, err error) {
	if broker, id, err = d.led(partition); err == nil {
		return broker, id, nil
	}
	err = retry(ctx, func() (bool, error) {
		if err := d.load(ctx); err != nil {
			return false, err
		}
		var err error
		broker, id, err = d.led(partition)
		return !errors.Is(err, ErrUnknownTopic), err
	})
	return broker, id, err
}

func (d *destination) led(partition int32) (broker int32, id [16]byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case int(partition) >= len(d.leaders):
		return 0, id, fmt.Errorf("%w: %s has no partition %d", ErrUnknownTopic, d.topic, partition)
	case d.leaders[partition] < 0:
		return 0, id, fmt.Errorf("partition %d has no leader", partition)
	}
	return d.leaders[partition], d.id, nil
}

// load asks the cluster for the topic until it answers. Callers that meet share one answer.
func (d *destination) load(ctx context.Context) error {
	since := time.Now()
	select {
	case d.loading <- struct{}{}:
		defer func() { <-d.loading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	d.mu.Lock()
	fresh := d.count > 0 && d.loaded.After(since)
	d.mu.Unlock()
	if fresh {
		return nil
	}
	var answer kmsg.MetadataResponseTopic
	err := retry(ctx, func() (again bool, err error) {
		answer, again, err = d.ask(ctx)
		return again, err
	})
	if err != nil {
		return err
	}
	return d.adopt(answer)
}

func (d *destination) ask(ctx context.Context) (answer kmsg.MetadataResponseTopic, again bool, err error) {
	if err := event.ValidateTopic(d.topic); err != nil {
		return answer, false, event.Permanent(err)
	}
	create := d.publisher.config.AllowAutoTopicCreation
	request := kmsg.NewPtrMetadataRequest()
	request.AllowAutoTopicCreation = create
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(d.topic)
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, d.publisher.client)
	if err != nil {
		return answer, true, fmt.Errorf("topic metadata: %w", err)
	}
	if len(response.Topics) != 1 {
		return answer, true, fmt.Errorf("topic metadata: %d topics in the answer for one", len(response.Topics))
	}
	answer = response.Topics[0]
	switch err := kerr.ErrorForCode(answer.ErrorCode); {
	case err == nil && len(answer.Partitions) > 0:
		return answer, false, nil
	case err == nil:
		return answer, true, errors.New("topic metadata: no partitions yet")
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return answer, create, ErrUnknownTopic
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return answer, false, fmt.Errorf("%w: %w", ErrTopicDenied, err)
	case errors.Is(err, kerr.InvalidTopicException):
		return answer, false, event.Permanent(event.Classify(err, "invalid_topic"))
	default:
		return answer, kerr.IsRetriable(err), fmt.Errorf("topic metadata: %w", err)
	}
}

func (d *destination) adopt(answer kmsg.MetadataResponseTopic) error {
	leaders := make([]int32, len(answer.Partitions))
	for _, partition := range answer.Partitions {
		if int(partition.Partition) >= len(leaders) {
			return fmt.Errorf("topic metadata: partition %d of %d", partition.Partition, len(leaders))
		}
		leaders[partition.Partition] = partition.Leader
	}
	count := int32(len(leaders)) //nolint:gosec // Kafka counts in int32
	d.mu.Lock()
	d.id, d.leaders, d.loaded = answer.TopicID, leaders, time.Now()
	known := d.count == count
	d.mu.Unlock()
	if known {
		return nil
	}
	var err error
	if check := d.publisher.config.CheckPartitions; check != nil {
		if err = check(d.topic, count); err != nil {
			err, count = fmt.Errorf("partition count %d not confirmed: %w: %w", count, event.ErrTopicUnavailable, err), 0
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count = count
	return err
}
