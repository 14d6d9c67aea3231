package kafka

import "github.com/twmb/franz-go/pkg/kgo"

// Compression names a codec of record batches.
type Compression string

const (
	// CompressionNone sends batches as they are: no CPU on either side. The default.
	CompressionNone Compression = "none"
	// CompressionGzip is the slowest, and understood by every client.
	CompressionGzip Compression = "gzip"
	// CompressionSnappy is fast and saves little.
	CompressionSnappy Compression = "snappy"
	// CompressionLz4 is fast and saves about as much as gzip at its fastest.
	CompressionLz4 Compression = "lz4"
	// CompressionZstd saves the most for its CPU; brokers since 2.1 understand it.
	CompressionZstd Compression = "zstd"
)

var codecs = map[Compression]kgo.CompressionCodec{
	CompressionNone:   kgo.NoCompression(),
	CompressionGzip:   kgo.GzipCompression(),
	CompressionSnappy: kgo.SnappyCompression(),
	CompressionLz4:    kgo.Lz4Compression(),
	CompressionZstd:   kgo.ZstdCompression(),
}
