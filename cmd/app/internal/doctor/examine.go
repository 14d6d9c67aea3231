package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lib/pq"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millrace-go/millrace/outbox"
)

// service is what a subject can not do without.
type service int

const (
	nothing service = iota
	postgres
	broker
)

// subject is some checks that look together.
type subject struct {
	names []string // in order; nil = they depend on what is found
	needs service
	look  func(ctx context.Context, e *examination) ([]Check, error)
}

var subjects = []subject{
	reachable, server, role, schema, sequence, rights, databaseClock, machineClock, pooler, wakeUp, horizon, prepared, slots,
	standbys, relays, shards, overlooked, parked, held, retention, tables,
	brokerVersion, brokerSettings, producer, idempotence, consumer, topics,
}

// examination is one run.
type examination struct {
	Services
	config   Config
	operator *outbox.Operator
	admin    *kadm.Client
}

// Examine makes all checks, in an order that does not change. The services stay the caller's to close. An error is one of the
// configuration, and nothing was looked at. Ending ctx ends it soon, with what is not yet looked at skipped.
func Examine(ctx context.Context, s Services, c Config) ([]Check, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.setDefaults()
	e := &examination{Services: s, config: c}
	if s.DB != nil {
		var err error
		if e.operator, err = outbox.NewOperator(s.DB, outbox.OperatorConfig{Schema: c.Schema}); err != nil {
			return nil, err
		}
	}
	if s.Kafka != nil {
		e.admin = kadm.NewClient(s.Kafka)
	}
	checks := []Check{}
	for _, one := range subjects {
		checks = append(checks, e.examine(ctx, one)...)
	}
	return checks, nil
}

func (e *examination) examine(ctx context.Context, s subject) []Check {
	ctx, cancel := context.WithTimeout(ctx, e.config.Timeout)
	defer cancel()
	var found []Check
	var why string
	switch {
	case s.needs == postgres && e.DB == nil:
		why = "PostgreSQL is not reached"
	case s.needs == broker && e.admin == nil:
		why = "Kafka is not reached"
	default:
		var err error
		if found, err = s.look(ctx, e); err != nil {
			why = e.reason(ctx, err)
		}
	}
	// What has no finding says why.
	for n, name := range s.names {
		if !slices.ContainsFunc(found, func(c Check) bool { return c.Name == name }) {
			found = slices.Insert(found, min(n, len(found)), skipped(name, "%s", why))
		}
	}
	return found
}

// reason says in one line why a check could not look, without what is not for everybody's eyes.
func (e *examination) reason(ctx context.Context, err error) string {
	var server *pq.Error
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "no answer within " + e.config.Timeout.String()
	case ctx.Err() != nil:
		return "interrupted"
	case errors.As(err, &server):
		switch server.Code {
		case "42P01", "3F000", "42883", "42703": // no such table, schema, function or column
			return "the tables are not there, or not as they should be: see schema.version"
		}
		return "PostgreSQL says: " + server.Message
	default:
		return strings.Join(strings.Fields(err.Error()), " ")
	}
}

// sql names the schema in an embedded statement.
func (e *examination) sql(statement string) string {
	return strings.ReplaceAll(statement, "{{schema}}", e.schema())
}

// schema is quoted.
func (e *examination) schema() string { return pq.QuoteIdentifier(e.config.Schema) }
