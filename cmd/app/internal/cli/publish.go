package cli

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/config"
	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/outbox"
)

type publishFlags struct {
	topic  string
	from   string
	batch  int
	dryRun bool
}

// publishReport is what became of the lines: Read is the sum of the others.
type publishReport struct {
	Read       int           `json:"read"`
	Written    int           `json:"written"`
	Duplicates int           `json:"duplicates"` // were in the outbox already, or in the batch before
	Skipped    int           `json:"skipped"`    // in a batch with a refused line
	Refused    []refusedLine `json:"refused"`
	DryRun     bool          `json:"dry_run"`
}

type refusedLine struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// newRefusedLine puts what may be several errors on one line.
func newRefusedLine(line int, err error) refusedLine {
	return refusedLine{line, strings.ReplaceAll(err.Error(), "\n", "; ")}
}

func newPublish(a *app) *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish --topic TOPIC",
		Short: "Write events to the outbox, one JSON object a line",
		Long: `Writes one event a line to the outbox, in transactions of --batch lines:

  {"event_id": "...", "event_type": "order.paid", "event_version": 1,
   "aggregate_type": "order", "aggregate_id": "4711", "aggregate_version": 3,
   "metadata": {"correlation_id": "..."}, "payload": {"any": "JSON"}}

Only payload is required; null is a tombstone, and its bytes stay as they are. A missing event_id is derived from
topic, line number and content, so running the same file again writes nothing twice, also after a crash.

A line that can not be written is refused with its number, and nothing of its batch is written; later batches go on.
So is a line with an event_id that an earlier line of its batch has with other content; the very same again is a duplicate.
kafka.max_message_bytes bounds an event.
The exit code is then 4, or 1 when nothing was written at all. Mend the line and run the file again.`,
		Args: cobra.NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error { return a.publish(cmd, f) }),
	}
	cmd.Flags().StringVar(&f.topic, "topic", "", "destination topic (required)")
	cmd.Flags().StringVar(&f.from, "from", "-", "file to read, - = standard input")
	cmd.Flags().IntVar(&f.batch, "batch", 100, "events a transaction")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "do everything, then roll every transaction back")
	outputFlags(cmd)
	databaseFlags(cmd)
	stateFlags(cmd)
	return cmd
}

func (a *app) publish(cmd *cobra.Command, f publishFlags) (err error) {
	a.resume = "Run the same again: nothing is written twice."
	if f.topic == "" {
		return usage{errors.New("--topic is missing")}
	}
	if err := event.ValidateTopic(f.topic); err != nil {
		return usage{fmt.Errorf("--topic: %w", err)}
	}
	if f.batch < 1 {
		return usage{errors.New("--batch: at least 1")}
	}
	input := a.stdin
	if f.from != "-" {
		file, openErr := os.Open(f.from)
		if openErr != nil {
			return usage{fmt.Errorf("--from: %w", openErr)}
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		input = file
	}
	n := need{postgres: true, tables: true}
	return a.withDatabase(cmd, n, func(ctx context.Context, db *sql.DB, c config.Config, _ *services) error {
		return a.publishFrom(ctx, db, c, f, input)
	})
}

func (a *app) publishFrom(ctx context.Context, db *sql.DB, c config.Config, f publishFlags, input io.Reader) error {
	p, err := newFilePublisher(db, c, f)
	if err != nil {
		return err
	}
	publishErr := p.publishAll(ctx, input)
	// Also after an error: what was committed is.
	if err := a.document(p.report, p.report.show); err != nil {
		return err
	}
	if publishErr != nil {
		return fmt.Errorf("%w (run the same again: nothing is written twice)", publishErr)
	}
	if len(p.report.Refused) == 0 {
		return nil
	}
	for _, r := range p.report.Refused {
		a.say("line %d: %s", r.Line, r.Error)
	}
	err = fmt.Errorf("%d of %d lines refused", len(p.report.Refused), p.report.Read)
	if p.report.Written+p.report.Duplicates > 0 {
		err = fmt.Errorf("%w: %w", errPartly, err)
	}
	return err
}

// filePublisher writes the lines of a file in batches.
type filePublisher struct {
	db             *sql.DB
	schema         string
	publisher      *outbox.ContextPublisher
	maxRecordBytes int
	flags          publishFlags
	report         publishReport
}

func newFilePublisher(db *sql.DB, c config.Config, f publishFlags) (*filePublisher, error) {
	// What fits on the way in fits on the way out.
	limit := c.Kafka.MaxMessageBytes
	publisher, err := outbox.NewContextPublisher(outbox.PublisherConfig{Schema: c.Schema, MaxRecordBytes: limit}, nil)
	return &filePublisher{
		db: db, schema: c.Schema, publisher: publisher, maxRecordBytes: limit,
		flags: f, report: publishReport{Refused: []refusedLine{}, DryRun: f.dryRun},
	}, err
}

// lineEvent is an event and the line it comes from.
type lineEvent struct {
	line int
	msg  *message.Message
}

func (p *filePublisher) publishAll(ctx context.Context, input io.Reader) error {
	file := lines{r: bufio.NewReaderSize(input, 64<<10)}
	for {
		batch := make([]lineEvent, 0, p.flags.batch)
		var refused []refusedLine
		var end error
		for len(batch)+len(refused) < p.flags.batch {
			line, err := file.next()
			if err != nil && !errors.Is(err, errTooLong) {
				end = err
				break
			}
			var msg *message.Message
			if err == nil {
				msg, err = parseLine(p.flags.topic, file.n, line)
			}
			if err != nil {
				refused = append(refused, newRefusedLine(file.n, err))
				continue
			}
			batch = append(batch, lineEvent{file.n, msg})
		}
		if err := p.publishBatch(ctx, batch, refused); err != nil {
			return err
		}
		if errors.Is(end, io.EOF) {
			return nil
		}
		if end != nil {
			return fmt.Errorf("read line %d: %w", file.n, end)
		}
	}
}

func (r publishReport) show(t table.Writer) {
	t.AppendRows([]table.Row{
		{"read", r.Read}, {"written", r.Written}, {"duplicates", r.Duplicates}, {"skipped", r.Skipped}, {"refused", len(r.Refused)},
	})
}
