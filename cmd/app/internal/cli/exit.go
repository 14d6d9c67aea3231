package cli

import (
	"database/sql/driver"
	"errors"
	"net"
	"os"

	"github.com/lib/pq"

	"github.com/millrace-go/millrace/config"
	"github.com/millrace-go/millrace/inbox"
	"github.com/millrace-go/millrace/internal/service"
	"github.com/millrace-go/millrace/kafka"
	"github.com/millrace-go/millrace/outbox"
)

// Exit codes. They are part of the contract with scripts.
const (
	codeOK          = 0
	codeError       = 1
	codeUsage       = 2
	codeTrouble     = 3 // a check found something
	codePartly      = 4
	codeNotFound    = 5
	codeConflict    = 6
	codeUnreachable = 7 // PostgreSQL or Kafka
	codeInterrupted = 130
)

var (
	errTrouble     = errors.New("a check found trouble")
	errPartly      = errors.New("partly done")
	errConflict    = errors.New("conflict")
	errUnreachable = errors.New("unreachable")
)

// usage is an error in how the command was called.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

// interrupted is why the context of a command ended.
type interrupted struct{ signal os.Signal }

func (i interrupted) Error() string { return i.signal.String() }

// exitCode is the one place where errors become exit codes.
func exitCode(err error) int {
	var (
		wrongUsage usage
		problems   config.Problems
		stopped    interrupted
	)
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return codeOK
	case errors.As(err, &stopped):
		return codeInterrupted
	case errors.As(err, &wrongUsage), errors.As(err, &problems):
		return codeUsage
	case is(errTrouble):
		return codeTrouble
	case is(errPartly):
		return codePartly
	case is(inbox.ErrNotFound, outbox.ErrNotFound, outbox.ErrNotPaused):
		return codeNotFound
	case is(errConflict, inbox.ErrNotDead, outbox.ErrLeaseHeld, service.ErrInUse,
		outbox.ErrNotParked, outbox.ErrWrongState, outbox.ErrUnexpectedCount, outbox.ErrPaused):
		return codeConflict
	case is(errUnreachable, driver.ErrBadConn) || connectionLost(err):
		return codeUnreachable
	default:
		return codeError
	}
}

// connectionLost says whether a server was away.
func connectionLost(err error) bool {
	var (
		network *net.OpError
		server  *pq.Error
	)
	if errors.As(err, &server) {
		class := server.Code.Class()
		return class == "08" || server.Code == "57P01" || server.Code == "57P02" || server.Code == "57P03"
	}
	return errors.As(err, &network) && !errors.Is(err, kafka.ErrClosed)
}
