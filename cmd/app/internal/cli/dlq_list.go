package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/inbox"
)

// deadLetterReport is a dead letter without its content.
type deadLetterReport struct {
	Consumer     string    `json:"consumer"`
	EventID      string    `json:"event_id"`
	State        string    `json:"state"`
	Topic        string    `json:"topic"`
	Partition    *int32    `json:"partition"`
	Offset       *int64    `json:"offset"`
	PayloadBytes int64     `json:"payload_bytes"`
	Attempts     int       `json:"attempts"`
	Deaths       int       `json:"deaths"`
	Replays      int       `json:"replays"`
	ErrorClass   string    `json:"error_class"`
	FirstError   string    `json:"first_error"`
	LastError    string    `json:"last_error"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

func newDeadLetterReport(d inbox.DeadLetter) deadLetterReport {
	return deadLetterReport{
		Consumer: d.Consumer, EventID: d.EventID, State: d.State, Topic: d.Topic, Partition: d.Partition, Offset: d.Offset,
		PayloadBytes: d.PayloadBytes, Attempts: d.Attempts, Deaths: d.Deaths, Replays: d.Replays,
		ErrorClass: d.ErrorClass, FirstError: d.FirstError, LastError: d.LastError,
		CreatedAt: d.CreatedAt.UTC(), UpdatedAt: d.UpdatedAt.UTC(),
	}
}

type dlqListReport struct {
	Count       int                `json:"count"`
	More        bool               `json:"more"` // there are more than --limit
	DeadLetters []deadLetterReport `json:"dead_letters"`
}

func newDLQList(a *app) *cobra.Command {
	var filter inbox.Filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, the longest dead first",
		Args:  cobra.NoArgs,
		RunE: a.dlq(func(ctx context.Context, d deadLetters, _ []string) error {
			if filter.Limit < 1 {
				return usage{errors.New("--limit: at least 1")}
			}
			report, err := d.list(ctx, filter)
			if err != nil {
				return err
			}
			if a.output == outputJSONLines {
				for _, letter := range report.DeadLetters {
					if err := a.document(letter, nil); err != nil {
						return err
					}
				}
				return nil
			}
			return a.document(report, report.show)
		}),
	}
	cmd.Flags().StringVar(&filter.Consumer, "consumer", "", "only of this consumer")
	cmd.Flags().StringVar(&filter.Topic, "topic", "", "only from this topic")
	cmd.Flags().StringVar(&filter.ErrorClass, "class", "", "only transient, permanent, panic or timeout")
	cmd.Flags().IntVar(&filter.Limit, "limit", 100, "list so many at most")
	a.dlqFlags(cmd)
	return cmd
}

// list reads pages until filter.Limit is reached.
func (d deadLetters) list(ctx context.Context, filter inbox.Filter) (dlqListReport, error) {
	report := dlqListReport{DeadLetters: []deadLetterReport{}}
	limit := filter.Limit
	for {
		filter.Limit = min(limit+1-len(report.DeadLetters), inbox.MaxPage)
		page, err := d.store.List(ctx, filter)
		if err != nil {
			return dlqListReport{}, err
		}
		for _, letter := range page {
			if len(report.DeadLetters) == limit {
				report.More = true
				break
			}
			report.DeadLetters = append(report.DeadLetters, newDeadLetterReport(letter))
			filter.After = letter.Cursor()
		}
		if len(page) < filter.Limit || report.More {
			report.Count = len(report.DeadLetters)
			return report, nil
		}
	}
}

func (r dlqListReport) show(t table.Writer) {
	t.AppendHeader(table.Row{"consumer", "event_id", "topic", "class", "attempts", "since", "last error"})
	for _, d := range r.DeadLetters {
		t.AppendRow(table.Row{d.Consumer, d.EventID, d.Topic, d.ErrorClass, d.Attempts, d.UpdatedAt.Format(time.RFC3339), shorten(d.LastError, 60)})
	}
	more := ""
	if r.More {
		more = "and more"
	}
	t.AppendFooter(table.Row{fmt.Sprintf("%d dead letters", r.Count), more})
}

func shorten(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes-1]) + "…"
	}
	return s
}
