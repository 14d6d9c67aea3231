package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-go/millrace/event"
)

const (
	// metadataMaxAge is how long it takes at most until a partition that was added is read.
	metadataMaxAge = 30 * time.Second
	// commitTimeout bounds the last commit before a partition is let go.
	commitTimeout = 10 * time.Second
	// patience is how long fetching waits for a full partition before it goes on without that one.
	patience = 100 * time.Millisecond
)

// subscription is one member of the group on one topic: run polls, the workers deliver.
type subscription struct {
	config SubscriberConfig
	topic  string
	logger watermill.LoggerAdapter
	client *kgo.Client
	output chan *message.Message
	ready  *chainQueue
	// drained wakes fetching when a full partition has room again.
	drained chan struct{}

	mu         sync.Mutex
	partitions map[int32]*partition // those with records in hand
}

func newSubscription(config SubscriberConfig, topic string, logger watermill.LoggerAdapter) (*subscription, error) {
	s := &subscription{
		config:     config,
		topic:      topic,
		logger:     logger.With(watermill.LogFields{"topic": topic, "consumer_group": config.ConsumerGroup}),
		output:     make(chan *message.Message),
		ready:      newChainQueue(),
		drained:    make(chan struct{}, 1),
		partitions: map[int32]*partition{},
	}
	start := kgo.NewOffset().AtStart()
	if config.Start == StartNewest {
		start = kgo.NewOffset().AtEnd()
	}
	options := append(config.Connection.options(logger),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeStartOffset(start),
		// Where records were lost under us, reading again is the only way to skip none.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500*time.Millisecond), // a resumed partition joins the next fetch
		kgo.MetadataMaxAge(metadataMaxAge),
	)
	if config.ReadCommitted {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if config.ConsumerGroup != "" {
		options = append(options,
			kgo.ConsumerGroup(config.ConsumerGroup),
			kgo.Balancers(kgo.CooperativeStickyBalancer()),
			kgo.SessionTimeout(config.SessionTimeout),
			kgo.RebalanceTimeout(rebalanceTimeout),
			kgo.BlockRebalanceOnPoll(), // what was polled is in partitions before a callback looks there
			kgo.AutoCommitMarks(),
			kgo.AutoCommitInterval(config.CommitInterval),
			kgo.AutoCommitCallback(s.committed),
			kgo.OnPartitionsRevoked(s.revoked),
			kgo.OnPartitionsLost(s.lost),
		)
	}
	var err error
	s.client, err = kgo.NewClient(options...)
	return s, err
}

// run serves the subscription until ctx is done or closing is closed.
func (s *subscription) run(ctx context.Context, closing <-chan struct{}) {
	defer close(s.output)
	s.logger.Info("Subscribed", nil)
	var workers sync.WaitGroup
	for range s.config.Parallelism {
		workers.Go(s.work)
	}
	polling, stop := context.WithCancel(ctx)
	var stopper sync.WaitGroup
	stopper.Go(func() {
		select {
		case <-closing:
		case <-polling.Done():
		}
		stop()
	})
	s.poll(ctx, polling)
	stop()
	stopper.Wait()

	s.letGo(s.takeAll(), s.config.CloseTimeout)
	s.ready.close()
	workers.Wait()
	s.commit()
	s.client.CloseAllowingRebalance()
	s.logger.Info("Unsubscribed", nil)
}

// poll takes records as fast as partitions have room for them. Messages carry the values of ctx.
func (s *subscription) poll(ctx, polling context.Context) {
	for polling.Err() == nil {
		s.makeRoom(polling)
		fetches := s.client.PollRecords(polling, s.config.MaxInFlight)
		if polling.Err() == nil {
			s.dispatch(ctx, fetches)
		}
		s.client.AllowRebalance()
		if fetches.IsClientClosed() {
			return
		}
	}
}

// makeRoom waits a moment for full partitions, and then pauses those that still are, so that they do not hold up others.
func (s *subscription) makeRoom(ctx context.Context) {
	late := time.After(patience)
	for full := s.full(); len(full) > 0; full = s.full() {
		select {
		case <-s.drained:
		case <-late:
			for _, p := range full {
				p.pause()
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *subscription) full() []*partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var full []*partition
	for _, p := range s.partitions {
		if p.isFull() {
			full = append(full, p)
		}
	}
	return full
}

func (s *subscription) dispatch(ctx context.Context, fetches kgo.Fetches) {
	fetches.EachError(func(_ string, number int32, err error) {
		if !errors.Is(err, context.Canceled) {
			s.logger.Error("Fetch failed", err, watermill.LogFields{"partition": number})
		}
	})
	fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
		if len(fetched.Records) == 0 {
			return
		}
		s.mu.Lock()
		p, ok := s.partitions[fetched.Partition]
		if !ok {
			p = newPartition(ctx, s, fetched.Partition)
			s.partitions[fetched.Partition] = p
		}
		s.mu.Unlock()
		p.add(fetched.Records)
	})
}

// work delivers the next message of whichever chain is ready, one at a time.
func (s *subscription) work() {
	for {
		c, ok := s.ready.pop()
		if !ok {
			return
		}
		if !c.partition.begin() {
			continue
		}
		outcome := s.deliver(c.partition, c.head())
		c.partition.end(c, outcome)
	}
}

type outcome int

const (
	handled outcome = iota
	refused
	undelivered
)

// deliver hands one record to a handler and waits for its verdict, or until the partition is gone.
func (s *subscription) deliver(p *partition, record *kgo.Record) outcome {
	msg, d := decode(s.config.Unmarshaler, record)
	ctx, cancel := context.WithCancel(event.ContextWithDelivery(p.ctx, d))
	defer cancel()
	msg.SetContext(ctx)
	select {
	case s.output <- msg:
	case <-p.stopping:
		return undelivered
	case <-p.ending:
		return undelivered
	}
	select {
	case <-msg.Acked():
		return handled
	case <-msg.Nacked():
		return refused
	case <-p.gone:
		return undelivered
	}
}

// revoked hands partitions over to other members: what is in the hands of handlers may finish, and is committed.
func (s *subscription) revoked(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
	s.letGo(s.take(revoked[s.topic]), s.config.HandOverTimeout)
	s.commit()
}

// lost drops partitions that may already belong to others. Nothing of them is committed any more.
func (s *subscription) lost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	for _, p := range s.take(lost[s.topic]) {
		p.stop()
		p.drop()
	}
}

// take removes partitions from those that records are dispatched to.
func (s *subscription) take(numbers []int32) []*partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var taken []*partition
	for _, number := range numbers {
		if p, ok := s.partitions[number]; ok {
			taken = append(taken, p)
			delete(s.partitions, number)
		}
	}
	return taken
}

func (s *subscription) takeAll() []*partition {
	s.mu.Lock()
	numbers := slices.Collect(maps.Keys(s.partitions))
	s.mu.Unlock()
	return s.take(numbers)
}

// letGo stops the partitions, waits a bounded time for what handlers have of them, and drops the rest.
func (s *subscription) letGo(partitions []*partition, timeout time.Duration) {
	for _, p := range partitions {
		p.stop()
	}
	late := time.After(timeout)
	unfinished := 0
	for _, p := range partitions {
		select {
		case <-p.idle():
		case <-late:
			late = time.After(0)
		}
		unfinished += p.drop()
	}
	if unfinished > 0 {
		s.logger.Error("Messages not finished in time, they will be delivered again", context.DeadlineExceeded,
			watermill.LogFields{"messages": unfinished, "timeout": timeout.String()})
	}
}

// commit commits every handled prefix now.
func (s *subscription) commit() {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	if err := s.client.CommitMarkedOffsets(ctx); err != nil {
		s.notCommitted(err)
	}
}

func (s *subscription) committed(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
	if err != nil {
		s.notCommitted(err)
		return
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				s.notCommitted(err)
				return
			}
		}
	}
}

// notCommitted is no loss: the next commit includes it, or the messages are delivered again.
func (s *subscription) notCommitted(err error) {
	if !errors.Is(err, context.Canceled) {
		s.logger.Info("Offsets not committed", watermill.LogFields{"error": err.Error()})
	}
}
