package bench

import (
	"slices"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-go/millrace/cmd/app/internal/broker"
	"github.com/millrace-go/millrace/event"
)

// rate is the time from the first append to the last, and the records a second in it.
func rate(records []*kgo.Record) (seconds, perSecond float64) {
	if len(records) == 0 {
		return 0, 0
	}
	first, last, atFirst := records[0].Timestamp, records[0].Timestamp, 0
	for _, r := range records {
		switch {
		case r.Timestamp.Before(first):
			first, atFirst = r.Timestamp, 1
		case r.Timestamp.Equal(first):
			atFirst++
		}
		if r.Timestamp.After(last) {
			last = r.Timestamp
		}
	}
	took := last.Sub(first).Seconds()
	if took == 0 {
		return 0, 0
	}
	return took, float64(len(records)-atFirst) / took
}

// compare counts what is missing, what is there again, and what comes after a later event of its aggregate. Records are
// ordered by partition and offset.
func compare(events []*message.Message, records []*kgo.Record) (lost, duplicated, reordered int) {
	seen := map[string]bool{}
	last := map[string]int64{}
	for _, r := range records {
		id := broker.Header(r, event.IDKey)
		if seen[id] {
			duplicated++
			continue
		}
		seen[id] = true
		aggregate := broker.Header(r, event.AggregateIDKey)
		version, _ := strconv.ParseInt(broker.Header(r, event.AggregateVersionKey), 10, 64) // 0 counts as out of order
		if version <= last[aggregate] {
			reordered++
		}
		last[aggregate] = max(last[aggregate], version)
	}
	for _, msg := range events {
		if !seen[msg.Metadata.Get(event.IDKey)] {
			lost++
		}
	}
	return lost, duplicated, reordered
}

// percentile is the smallest value that p percent of all do not exceed, in milliseconds.
func percentile(all []time.Duration, p int) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	index := (len(sorted)*p + 99) / 100
	return float64(sorted[index-1].Microseconds()) / 1000
}
