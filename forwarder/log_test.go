package forwarder_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/internal/testkit"
)

// everything keeps all that is logged, whatever its level.
type everything struct {
	fields watermill.LogFields
	lines  *logLines
}

type logLines struct {
	mu    sync.Mutex
	lines []logLine
}

type logLine struct {
	level, text string
	fields      watermill.LogFields
}

func newEverything() everything { return everything{lines: &logLines{}} }

func (l everything) add(level, text string, fields watermill.LogFields) {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	l.lines.lines = append(l.lines.lines, logLine{level, text, l.fields.Add(fields)})
}

func (l everything) Error(msg string, err error, fields watermill.LogFields) {
	l.add("error", msg+": "+err.Error(), fields)
}
func (l everything) Info(msg string, fields watermill.LogFields)  { l.add("info", msg, fields) }
func (l everything) Debug(msg string, fields watermill.LogFields) { l.add("debug", msg, fields) }
func (l everything) Trace(msg string, fields watermill.LogFields) { l.add("trace", msg, fields) }
func (l everything) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return everything{l.fields.Add(fields), l.lines}
}

// about are the lines that begin like this and concern an event.
func (l everything) about(text, id string) (lines []logLine) {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	for _, line := range l.lines.lines {
		if strings.HasPrefix(line.text, text) && line.fields["event_id"] == id {
			lines = append(lines, line)
		}
	}
	return lines
}

// What is in an event stays in it: in no line, whatever goes wrong, and at whatever level.
func TestLogsNameTheEventAndItsErrorsAndNothingOfItsContent(t *testing.T) {
	const canary = "canary-4711"
	db := testkit.Migrated(t)
	tries := 0
	publisher := &recorder{refuse: func(_ string, msg *message.Message) error {
		if msg.Metadata[event.IDKey] != "refused" {
			return nil
		}
		tries++
		return event.Permanent(event.Classify(fmt.Errorf("refused the %dth time", tries), "refused"))
	}}
	config := quick()
	config.MaxAttempts = 3
	logger := newEverything()
	runLogged(t, db, publisher, newConfig(config), logger)

	refused := event.New("x", []byte(canary), event.WithID("refused"), event.Aggregate("order", "1", 1))
	refused.Metadata["private"] = canary
	behind := event.New("x", []byte(canary), event.WithID("behind"), event.Aggregate("order", "1", 2))
	publish(t, db, "orders", refused, behind)
	execute(t, db, `insert into millrace.outbox (event_id, topic, payload, metadata) values ('undecodable', 'orders', $1, $2::text::jsonb)`,
		[]byte(canary), `{"private": {"`+canary+`": ["`+canary+`"]}}`)
	isParked(t, db, "refused", "quarantined")
	isParked(t, db, "undecodable", "quarantined")
	isParked(t, db, "behind", "blocked")
	eventually(t, func() bool {
		return len(logger.about("An event is quarantined", "refused"))+len(logger.about("An event is quarantined", "undecodable")) == 2
	}, "nothing is logged")

	parked := logger.about("An event was refused and is parked", "refused")
	require.Len(t, parked, 2)
	for _, line := range append(parked, logger.about("An event is quarantined", "refused")...) {
		require.Equal(t, "error", line.level)
		require.Equal(t, []any{"orders", "publish", "refused the 1th time"},
			[]any{line.fields["topic"], line.fields["stage"], line.fields["first_error"]})
	}
	require.Contains(t, parked[1].text, "refused the 2th time")
	quarantined := logger.about("An event is quarantined", "undecodable")[0]
	require.Equal(t, []any{"orders", "decode", "undecodable"},
		[]any{quarantined.fields["topic"], quarantined.fields["stage"], quarantined.fields["error_class"]})
	logger.lines.mu.Lock()
	defer logger.lines.mu.Unlock()
	for _, line := range logger.lines.lines {
		require.NotContains(t, fmt.Sprint(line), canary)
	}
	require.NotContains(t, scan[string](t, db, `select coalesce(string_agg(p::text, ''), '') from millrace.outbox_parked p`), canary)
}

// An outage is told of once, not a line an event.
func TestAnOutageIsNotLoggedEventByEvent(t *testing.T) {
	const canary = "canary-4711"
	db := testkit.Migrated(t)
	publisher := &recorder{refuse: func(string, *message.Message) error { return errors.New("away") }}
	logger := newEverything()
	f := runLogged(t, db, publisher, newConfig(quick()), logger)
	publish(t, db, "orders", event.New("x", []byte(canary), event.Aggregate("order", "1", 1)), event.New("x", []byte(canary), event.Aggregate("order", "2", 1)))
	eventually(t, func() bool { return f.Stats().Failed > 5 }, "no failures")
	logger.lines.mu.Lock()
	defer logger.lines.mu.Unlock()
	loud := 0
	for _, line := range logger.lines.lines {
		require.NotContains(t, fmt.Sprint(line), canary)
		if line.level == "error" {
			loud++
		}
	}
	require.Equal(t, 1, loud)
}
