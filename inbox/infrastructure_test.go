package inbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
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
