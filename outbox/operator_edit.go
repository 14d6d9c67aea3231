package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/event"
)

// Edit is what an operator changes in how a parked event is sent. The event's row in the outbox never changes.
type Edit struct {
	// Topic is where to send the event. "" leaves that as it is; the event's own topic undoes an edit before.
	Topic string

	// Metadata is added to or replaces what the event has, key by key; nil removes a key. Who an event is can not be edited:
	// event_id, aggregate_type, aggregate_id, aggregate_version, partition_key and deliver_at.
	Metadata map[string]*string

	// Retry has the event tried again now. nil = if it is retrying or quarantined.
	Retry *bool
}

// identity are the metadata keys an edit may not touch.
var identity = []string{
	event.IDKey, event.AggregateTypeKey, event.AggregateIDKey, event.AggregateVersionKey, event.PartitionKeyKey, event.DeliverAtKey,
}

// Validate names everything that is wrong.
func (e Edit) Validate() error {
	var errs []error
	if e.Topic == "" && len(e.Metadata) == 0 {
		errs = append(errs, errors.New("neither Topic nor Metadata is given"))
	}
	if e.Topic != "" {
		errs = append(errs, event.ValidateTopic(e.Topic))
	}
	for _, key := range slices.Sorted(maps.Keys(e.Metadata)) {
		value := e.Metadata[key]
		switch {
		case slices.Contains(identity, key):
			errs = append(errs, fmt.Errorf("Metadata[%q] says who the event is: that can not be edited", key))
		case key == "" || !storable(key) || value != nil && !storable(*value):
			errs = append(errs, fmt.Errorf("Metadata[%q] is empty or not valid UTF-8 without NUL", key))
		}
	}
	return errors.Join(errs...)
}

// Edit changes where, and with which metadata, parked events are sent. It works on every state but discarded, and needs a
// reason.
func (o *Operator) Edit(ctx context.Context, edit Edit, op Operation) ([]Change, error) {
	err := edit.Validate()
	if op.Reason == "" {
		err = errors.Join(err, errors.New("Reason is missing"))
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: edit: %w", err)
	}
	return o.operate(ctx, "edit", op, func(t *operatorTarget) error { return t.edit(edit) })
}

func (t *operatorTarget) edit(edit Edit) error {
	if t.before.State == stateDiscarded {
		return fmt.Errorf("%w: it is discarded, which is final", ErrWrongState)
	}
	if edit.Topic != "" {
		t.after.TopicOverride = edit.Topic
		if edit.Topic == t.before.Topic {
			t.after.TopicOverride = ""
		}
	}
	if t.after.MetadataOverride == nil {
		t.after.MetadataOverride = map[string]*string{}
	}
	maps.Copy(t.after.MetadataOverride, edit.Metadata)
	retry := t.before.State == stateRetrying || t.before.State == stateQuarantined
	if edit.Retry != nil {
		retry = *edit.Retry
	}
	if retry {
		return t.retry()
	}
	return nil
}
