package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/event"
)

var (
	//go:embed operator_pause.sql
	operatorPauseSQL string
	//go:embed operator_resume.sql
	operatorResumeSQL string
	//go:embed operator_pauses.sql
	operatorPausesSQL string
)

// Pause is a topic, or an aggregate in all topics, that no relay sends events of.
type Pause struct {
	Topic         string    `json:"topic,omitempty"`
	AggregateType string    `json:"aggregate_type,omitempty"`
	AggregateID   string    `json:"aggregate_id,omitempty"`
	Reason        string    `json:"reason"`
	Actor         string    `json:"actor"`     // set by Operator.Pause
	PausedAt      time.Time `json:"paused_at"` // set by the database
}

// Validate names everything that is wrong.
func (p Pause) Validate() error {
	var errs []error
	if (p.Topic == "") == (p.AggregateType == "") || (p.AggregateType == "") != (p.AggregateID == "") {
		errs = append(errs, errors.New("either Topic, or AggregateType and AggregateID are to be given"))
	}
	if p.Topic != "" {
		errs = append(errs, event.ValidateTopic(p.Topic))
	}
	for _, s := range []string{p.AggregateType, p.AggregateID} {
		if len(s) > maxColumnLength || !storable(s) {
			errs = append(errs, errors.New("AggregateType or AggregateID is too long or not valid UTF-8 without NUL"))
			break
		}
	}
	if !storable(p.Reason) {
		errs = append(errs, errors.New("Reason is not valid UTF-8 without NUL"))
	}
	return errors.Join(errs...)
}

// String is what is paused.
func (p Pause) String() string {
	if p.Topic != "" {
		return "topic " + p.Topic
	}
	return "aggregate " + p.AggregateType + "/" + p.AggregateID
}

// Pause has all relays hold back the events of a topic or aggregate until Resume; what is in flight is finished. It outlives
// the relays. ErrPaused if it is paused already. A dry run finds out whether it would work.
func (o *Operator) Pause(ctx context.Context, p Pause, dryRun bool) error {
	return o.pause(ctx, "pause", operatorPauseSQL, ErrPaused, p, dryRun, p.Topic, p.AggregateType, p.AggregateID, p.Reason, o.config.Actor)
}

// Resume ends a pause: what was held back is sent in its order. p.Reason goes to the audit. ErrNotPaused if it is not paused.
// A dry run finds out whether it would work.
func (o *Operator) Resume(ctx context.Context, p Pause, dryRun bool) error {
	return o.pause(ctx, "resume", operatorResumeSQL, ErrNotPaused, p, dryRun, p.Topic, p.AggregateType, p.AggregateID)
}

// pause changes one pause, in a dry run only to see whether it can.
func (o *Operator) pause(ctx context.Context, action, statement string, nothing error, p Pause, dryRun bool, args ...any) error {
	err := p.Validate()
	if o.config.Actor == "" {
		err = errors.Join(err, errors.New("OperatorConfig.Actor is missing"))
	}
	if err != nil {
		return fmt.Errorf("outbox: %s: %w", action, err)
	}
	errDryRun := errors.New("dry run")
	err = InTx(ctx, o.db, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, o.sql(statement), args...)
		if err != nil {
			return explain(err)
		}
		n, err := result.RowsAffected()
		switch {
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("%s: %w", p, nothing)
		case dryRun:
			return errDryRun
		}
		detail := map[string]any{"topic": p.Topic}
		if p.Topic == "" {
			detail = map[string]any{"aggregate_type": p.AggregateType, "aggregate_id": p.AggregateID}
		}
		return o.writeDown(ctx, tx, action, p.Reason, []audited{{p.String(), detail}})
	})
	if err != nil && !errors.Is(err, errDryRun) {
		return fmt.Errorf("outbox: %s: %w", action, err)
	}
	return nil
}

// scanPause reads a row of operator_pauses.sql.
func scanPause(scan scanner) (p Pause, err error) {
	err = scan(&p.Topic, &p.AggregateType, &p.AggregateID, &p.Reason, &p.Actor, &p.PausedAt)
	p.PausedAt = p.PausedAt.UTC()
	return p, err
}
