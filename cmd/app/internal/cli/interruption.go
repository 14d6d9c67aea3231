package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/lib/pq"
)

// besides returns what is in err other than work that ended because its context did, nil if nothing is.
func besides(err error) []error {
	var parts []error
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		parts = e.Unwrap()
	case interface{ Unwrap() error }:
		parts = []error{e.Unwrap()}
	}
	switch {
	case !endedByContext(err):
		return []error{err}
	case len(parts) != 1 && !joined(err, parts):
		return nil
	}
	var others []error
	for _, part := range parts {
		others = append(others, besides(part)...)
	}
	return others
}

// joined tells a list of errors from one that wraps others in a text of its own.
func joined(err error, parts []error) bool {
	texts := make([]string, 0, len(parts))
	for _, part := range parts {
		if part != nil {
			texts = append(texts, part.Error())
		}
	}
	return len(texts) > 0 && strings.Join(texts, "\n") == err.Error()
}

func endedByContext(err error) bool {
	var server *pq.Error
	canceled := errors.As(err, &server) && server.Code == "57014" // the driver asked the server to
	return canceled || errors.Is(err, context.Canceled) || errors.As(err, new(interrupted))
}
