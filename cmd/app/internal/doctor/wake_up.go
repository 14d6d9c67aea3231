package doctor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// maxChannel is how long a channel's name may be, in bytes.
const maxChannel = 63

//go:embed wake_up.sql
var wakeUpSQL string

var wakeUp = subject{
	names: []string{"wake_up.trigger", "wake_up.listen"},
	needs: postgres,
	look: func(ctx context.Context, e *examination) ([]Check, error) {
		trigger, err := e.trigger(ctx)
		if err != nil {
			return nil, err
		}
		listen, err := e.listen(ctx)
		if err != nil {
			listen = skipped("wake_up.listen", "%s", e.reason(ctx, err))
		}
		return []Check{trigger, listen}, nil
	},
}

func (e *examination) trigger(ctx context.Context) (Check, error) {
	const name = "wake_up.trigger"
	var enabled bool
	var preparable int
	if err := e.DB.QueryRowContext(ctx, wakeUpSQL, e.config.Schema).Scan(&enabled, &preparable); err != nil {
		return Check{}, err
	}
	switch {
	case !enabled && e.config.DirectURL != "":
		return warning(name, "disabled, so nobody tells the relays of new events and they are found by polling: run: alter table %s.outbox enable trigger outbox_wake_up, unless transactions end in PREPARE TRANSACTION", e.schema()), nil
	case !enabled:
		return ok(name, "disabled; new events are found by polling"), nil
	case preparable > 0:
		return warning(name, "enabled, and max_prepared_transactions=%d: a transaction that wrote an event can not be prepared; if writers do that, run: alter table %s.outbox disable trigger outbox_wake_up, else set it to 0",
			preparable, e.schema()), nil
	}
	return ok(name, "enabled; max_prepared_transactions=0, so nothing needs it disabled"), nil
}

// listen sees whether a notification arrives where the relay would listen.
func (e *examination) listen(ctx context.Context) (Check, error) {
	const name = "wake_up.listen"
	if e.config.DirectURL == "" {
		return skipped(name, "relay.wake_up is off: new events are found by polling"), nil
	}
	if !e.config.ListenElsewhere {
		// Listening there would leave a server process of the pool that listens and that nobody can tell to stop.
		shared, err := e.pooled(ctx)
		if err != nil {
			return Check{}, err
		}
		if shared {
			return warning(name, "behind a pooler in transaction mode nobody can listen: give the server's own address, or set MILLRACE_RELAY_WAKE_UP=false and poll"), nil
		}
	}
	conn, err := connectListener(ctx, e.config.DirectURL)
	if err != nil {
		return Check{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it has done what it was for
	channel := "outbox_wake_up_" + e.config.Schema
	channel = channel[:min(len(channel), maxChannel)]
	if _, err := conn.Exec(ctx, "listen "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return Check{}, err
	}
	mark := "doctor " + uuid.NewString()
	if _, err := e.DB.ExecContext(ctx, "select pg_notify($1::text, $2::text)", channel, mark); err != nil {
		return Check{}, err
	}
	for {
		notification, err := conn.WaitForNotification(ctx)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return warning(name, "no notification arrived within %s: give an address that leads to the server itself, or set MILLRACE_RELAY_WAKE_UP=false and poll", e.config.Timeout), nil
		case err != nil:
			return Check{}, err
		case notification.Payload == mark:
			return ok(name, "a notification arrives, so an idle relay is woken"), nil
		}
	}
}

// connectListener connects as the relay does. The errors do not repeat the address: it may hold a password.
func connectListener(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the address is no connection string that the listener knows, or names a file that can not be read")
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	for _, ofAnotherDriver := range []string{"binary_parameters", "disable_prepared_binary_result"} { // lib/pq
		delete(config.RuntimeParams, ofAnotherDriver)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	var connecting *pgconn.ConnectError
	if errors.As(err, &connecting) {
		return nil, fmt.Errorf("the listener does not connect: %w", connecting.Unwrap()) // without user and database
	}
	return conn, err
}
