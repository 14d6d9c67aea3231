package kafka

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Where the length and the checksum stand in an encoded batch, and what each covers.
const (
	lengthAt    = 8
	lengthFrom  = 12
	checksumAt  = 17
	checksummed = 21
)

// encodeBatch makes one record batch of the items.
func encodeBatch(items []item, p producer, compressor kgo.Compressor) []byte {
	first := items[0].record.Timestamp.UnixMilli()
	last := first
	size := 0
	for _, it := range items {
		size += it.size + laterOverhead
	}
	records := make([]byte, 0, size)
	var body []byte
	var headers []kmsg.Header
	for i, it := range items {
		timestamp := it.record.Timestamp.UnixMilli()
		last = max(last, timestamp)
		record := kmsg.Record{
			TimestampDelta64: timestamp - first,
			OffsetDelta:      int32(i),
			Key:              it.record.Key,
			Value:            it.record.Value,
		}
		headers = headers[:0]
		for _, header := range it.record.Headers {
			headers = append(headers, kmsg.Header{Key: header.Key, Value: header.Value})
		}
		record.Headers = headers
		body = record.AppendTo(body[:0])[1:]                   // without the length, still one byte of 0
		records = kbin.AppendVarint(records, int32(len(body))) //nolint:gosec // bounded by the batch's limit
		records = append(records, body...)
	}
	codec := kgo.CodecNone
	if compressor != nil {
		if compressed, used := compressor.Compress(new(bytes.Buffer), records); len(compressed) < len(records) {
			records, codec = compressed, used
		}
	}
	count := int32(len(items)) //nolint:gosec // a chunk is small
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1,
		Magic:                2,
		Attributes:           int16(codec),
		LastOffsetDelta:      count - 1,
		FirstTimestamp:       first,
		MaxTimestamp:         last,
		ProducerID:           p.id,
		ProducerEpoch:        p.epoch,
		FirstSequence:        p.sequence,
		NumRecords:           count,
		Records:              records,
	}
	encoded := batch.AppendTo(make([]byte, 0, batchOverhead+len(records)))
	binary.BigEndian.PutUint32(encoded[lengthAt:], uint32(len(encoded)-lengthFrom)) //nolint:gosec // below MaxMessageBytes
	binary.BigEndian.PutUint32(encoded[checksumAt:], crc32.Checksum(encoded[checksummed:], castagnoli))
	return encoded
}
