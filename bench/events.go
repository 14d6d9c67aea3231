package main

import (
	"bytes"
	"fmt"
	"strconv"
)

// What the events are like.
const (
	aggregates   = 1000
	partitions   = 6
	payloadBytes = 300
	batch        = 1000 // events a transaction
)

func eventID(n int) string { return fmt.Sprintf("00000000-0000-7000-8000-%012x", n) }

func aggregate(n int) string { return fmt.Sprintf("order-%04d", n%aggregates) }

func version(n int) int64 { return int64(n/aggregates + 1) }

const eventField = `", "event": `

// payload is the nth event. It is spelt as PostgreSQL spells a jsonb, which Debezium's table has: short names first, a space
// after each colon and comma. So the same bytes come out of every relay.
func payload(n int) []byte {
	tail := fmt.Sprintf(eventField+`%d, "version": %d, "order_id": %q}`, n, version(n), aggregate(n))
	p := append(make([]byte, 0, payloadBytes), `{"note": "`...)
	for len(p)+len(tail) < payloadBytes {
		p = append(p, 'x')
	}
	return append(p, tail...)
}

// number is the n of a payload, which has to be it to the byte.
func number(value []byte) (n int, ok bool) {
	_, rest, _ := bytes.Cut(value, []byte(eventField))
	digits, _, _ := bytes.Cut(rest, []byte(","))
	n, err := strconv.Atoi(string(digits))
	return n, err == nil && n >= 0 && bytes.Equal(value, payload(n))
}

// batches calls f for the numbers of the first events, a transaction at a time.
func batches(events int, f func(numbers []int) error) error {
	for first := 0; first < events; first += batch {
		var numbers []int
		for n := first; n < min(first+batch, events); n++ {
			numbers = append(numbers, n)
		}
		if err := f(numbers); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
	}
	return nil
}
