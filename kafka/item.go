package kafka

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/event"
)

// item is one message on its way to a partition. Its record's Context is the one that may call it back until it is
// sent.
type item struct {
	index    int // among the messages of its call
	line     line
	eventID  string
	record   *kgo.Record
	size     int   // of the encoded record, alone in its batch
	err      error // refused before sending; it still takes its place in the lane, so that none passes it
	onResult func(index int, receipt event.Receipt, err error)
}

func (i item) refuse(err error) { i.onResult(i.index, event.Receipt{Partition: -1, Offset: -1}, err) }

// Sizes in bytes of what surrounds the records of a batch, and of how much longer the offset and timestamp differences
// to the first record can make a later one.
const (
	batchOverhead  = 61
	laterOverhead  = 4 + 9 + 1
	maxHeaderCount = 1<<31 - 1
)

// recordSize is the length of the first record of a batch as Kafka counts it.
func recordSize(r *kgo.Record) int {
	bytes := func(n int) int { return kbin.VarintLen(int32(min(n, maxHeaderCount))) + n }               //nolint:gosec // bounded
	size := 1 + 1 + 1 + bytes(len(r.Key)) + bytes(len(r.Value)) + kbin.VarintLen(int32(len(r.Headers))) //nolint:gosec // few
	for _, header := range r.Headers {
		size += bytes(len(header.Key)) + bytes(len(header.Value))
	}
	return kbin.VarintLen(int32(min(size, maxHeaderCount))) + size //nolint:gosec // bounded
}
