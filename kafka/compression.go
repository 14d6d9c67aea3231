package kafka

import "github.com/twmb/franz-go/pkg/kgo"

// Compression names a codec of record batches.
type Compression string

const (
	// CompressionNone sends batches as they are: no CPU on either side. The default.
	CompressionNone   Compression = "none"
	CompressionGzip   Compression = "gzip"
	CompressionSnappy Compression = "snappy"
	CompressionLz4    Compression = "lz4"
	CompressionZstd   Compression = "zstd"
)

var codecs = map[Compression]kgo.CompressionCodec{
	CompressionNone:   kgo.NoCompression(),
	CompressionGzip:   kgo.GzipCompression(),
	CompressionSnappy: kgo.SnappyCompression(),
	CompressionLz4:    kgo.Lz4Compression(),
	CompressionZstd:   kgo.ZstdCompression(),
}
