package middleware

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"

	"github.com/millrace-go/millrace/event"
	"github.com/millrace-go/millrace/inbox"
)

const (
	maxErrorText = 4 << 10
	maxStackText = 8 << 10
)

// describe says what an error says, without the row data that database errors quote: of those only SQLSTATE and the names of
// schema objects are kept. The text is cut to maxErrorText and free of control characters.
func describe(err error) string {
	var panicked *PanicError
	if errors.As(err, &panicked) {
		if value, ok := panicked.Value.(error); ok {
			return escape("handler panicked: "+withoutRowData(value), maxErrorText)
		}
	}
	return escape(withoutRowData(err), maxErrorText)
}

func withoutRowData(err error) string {
	text := err.Error()
	for _, e := range chain(err) {
		switch e := e.(type) { //nolint:errorlint // chain has unwrapped them all
		case *pq.Error:
			text = replace(text, e.Error(), e.Message, string(e.Code), e.Table, e.Column, e.Constraint)
		case *pgconn.PgError:
			text = replace(text, e.Error(), e.Message, e.Code, e.TableName, e.ColumnName, e.ConstraintName)
		}
	}
	return text
}

func replace(text, whole, message, state, table, column, constraint string) string {
	summary := "database error " + state
	for _, part := range []struct{ kind, name string }{{"table", table}, {"column", column}, {"constraint", constraint}} {
		if part.name != "" {
			summary += fmt.Sprintf(" %s %q", part.kind, part.name)
		}
	}
	text = strings.ReplaceAll(text, whole, summary)
	if message != "" {
		text = strings.ReplaceAll(text, message, summary)
	}
	return text
}

// chain lists an error and everything it wraps.
func chain(err error) []error {
	all := []error{err}
	switch e := err.(type) { //nolint:errorlint // this is the unwrapping
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			all = append(all, chain(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, chain(inner)...)
		}
	}
	return all
}

// escape makes printable text of any bytes and cuts it to limit bytes.
func escape(s string, limit int) string {
	const more = "..."
	var b strings.Builder
	for i := 0; i < len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+width]
		switch {
		case r == utf8.RuneError && width == 1:
			piece = fmt.Sprintf(`\x%02x`, s[i])
		case r == '\n':
			piece = `\n`
		case r == '\t':
			piece = `\t`
		case r < utf8.RuneSelf && !unicode.IsPrint(r):
			piece = fmt.Sprintf(`\x%02x`, r)
		case !unicode.IsPrint(r):
			piece = fmt.Sprintf(`\u%04x`, r)
		}
		if b.Len()+len(piece) > limit-len(more) && len(s)-i > len(more) {
			b.WriteString(more)
			break
		}
		b.WriteString(piece)
		i += width
	}
	return b.String()
}

// classify names the class of a failure.
func classify(err error) string {
	var panicked *PanicError
	switch {
	case event.IsPermanent(err):
		return inbox.ClassPermanent
	case errors.As(err, &panicked):
		return inbox.ClassPanic
	case errors.Is(err, context.DeadlineExceeded): // ErrTimeout is one
		return inbox.ClassTimeout
	}
	return inbox.ClassTransient
}

// stack is where the handler panicked, readable and cut to maxStackText.
func stack(err error) string {
	var panicked *PanicError
	if !errors.As(err, &panicked) {
		return ""
	}
	s := string(panicked.Stack)
	if len(s) > maxStackText {
		s = s[:maxStackText]
	}
	return strings.ToValidUTF8(s, "")
}
