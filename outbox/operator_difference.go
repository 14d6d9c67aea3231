package outbox

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// Difference is a field of an event before and after, nil = not there. Fields are state, blocks, due_at, attempts, owner,
// topic and metadata.KEY; the last two as they are sent. A due_at of "now" is the moment of the change.
type Difference struct {
	Field  string  `json:"field"`
	Before *string `json:"before"`
	After  *string `json:"after"`
}

// differences compares what is with what is to be.
func (t *operatorTarget) differences() ([]Difference, error) {
	var list []Difference
	add := func(field string, before, after *string) {
		if (before == nil) != (after == nil) || before != nil && *before != *after {
			list = append(list, Difference{field, before, after})
		}
	}
	now := "now"
	dueAfter := due(t.after.DueAt)
	if t.dueNow {
		dueAfter = &now
	}
	blocksBefore, blocksAfter := strconv.FormatBool(t.before.Blocks), strconv.FormatBool(t.after.Blocks)
	attemptsBefore, attemptsAfter := strconv.Itoa(t.before.Attempts), strconv.Itoa(t.after.Attempts)
	add("state", &t.before.State, &t.after.State)
	add("blocks", &blocksBefore, &blocksAfter)
	add("due_at", due(t.before.DueAt), dueAfter)
	add("attempts", &attemptsBefore, &attemptsAfter)
	add("owner", &t.before.Owner, &t.after.Owner)
	topicBefore, topicAfter := t.before.destination(), t.after.destination()
	add("topic", &topicBefore, &topicAfter)
	before, err := t.event.metadata(t.before.MetadataOverride)
	if err != nil {
		return nil, err
	}
	after, err := t.event.metadata(t.after.MetadataOverride)
	if err != nil {
		return nil, err
	}
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		add("metadata."+key, value(before, key), value(after, key))
	}
	return list, nil
}

func due(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := t.UTC().Format(time.RFC3339Nano)
	return &s
}

func value(metadata map[string]string, key string) *string {
	if v, ok := metadata[key]; ok {
		return &v
	}
	return nil
}
