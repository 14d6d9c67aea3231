package inbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/testkit"
)

func TestOutagesAreToldFromFailures(t *testing.T) {
	for _, err := range []error{
		inbox.ErrInfrastructure, driver.ErrBadConn, sql.ErrConnDone, &net.OpError{Op: "dial", Err: io.EOF},
		&pq.Error{Code: "57P01"}, &pgconn.PgError{Code: "25006"}, &pq.Error{Code: "40001"}, &pgconn.PgError{Code: "40P01"},
		&pq.Error{Code: "55P03"}, &pq.Error{Code: "25P03"}, &pgconn.PgError{Code: "53300"}, &pq.Error{Code: "08006"},
	} {
		require.True(t, inbox.IsInfrastructure(fmt.Errorf("wrapped: %w", err)), "%v", err)
		require.False(t, inbox.IsInfrastructure(event.Permanent(err)), "%v", err)
	}
	for _, err := range []error{
		nil, errEffect, io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded, sql.ErrTxDone, sql.ErrNoRows,
		&pq.Error{Code: "23505"}, &pgconn.PgError{Code: "22P02"}, &pq.Error{Code: "57014"}, &pq.Error{Code: "25P02"},
		fmt.Errorf("%w: %w", context.DeadlineExceeded, &net.OpError{Op: "read", Err: io.EOF}),
	} {
		require.False(t, inbox.IsInfrastructure(err), "%v", err)
	}
}

func TestAnErrorOfCommitThatProvesNothingLeavesTheOutcomeOpen(t *testing.T) {
	for _, err := range []error{
		driver.ErrBadConn, io.ErrUnexpectedEOF, context.DeadlineExceeded, &net.OpError{Op: "read", Err: io.EOF},
		&pq.Error{Code: "40003"}, &pgconn.PgError{Code: "40003"}, &pq.Error{Code: "08006"}, &pgconn.PgError{Code: "57P01"},
		&pq.Error{Code: "57014"}, &pgconn.PgError{Code: "58030"}, &pq.Error{Code: "XX000"},
	} {
		err = inbox.NotCommitted(err)
		require.ErrorIs(t, err, inbox.ErrOutcomeUnknown)
		require.True(t, inbox.IsInfrastructure(err))
	}
	for _, err := range []error{
		sql.ErrTxDone, pgx.ErrTxCommitRollback, pq.ErrInFailedTransaction, &pq.Error{Code: "40001"}, &pgconn.PgError{Code: "23505"},
	} {
		require.NotErrorIs(t, inbox.NotCommitted(err), inbox.ErrOutcomeUnknown)
	}
}

func TestALostAnswerToTheCommitOfADeathLeavesTheOutcomeOpen(t *testing.T) {
	for _, name := range []string{"postgres", "pgx"} {
		t.Run(name, func(t *testing.T) {
			_, dsn := testkit.MigratedDatabase(t)
			store, err := inbox.NewStore(testkit.Open(t, name, dsn), inbox.Config{})
			require.NoError(t, err)
			_, err = store.Bury(t.Context(), paid("e-1"), inbox.Death{}, func(ctx context.Context, tx *sql.Tx, _ int) error {
				_, err := tx.ExecContext(ctx, "select pg_terminate_backend(pg_backend_pid())")
				require.Error(t, err)
				return nil
			})
			require.ErrorIs(t, err, inbox.ErrOutcomeUnknown)
			require.True(t, inbox.IsInfrastructure(err))
		})
	}
}
