package event

import "errors"

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks an error as one that no retry can mend: the event goes to the dead letters at once. Every other error
// is transient. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent says whether Permanent marked err or anything in its chain.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// ErrTopicUnavailable is in the chain of an error that is about a topic as a whole: it does not exist, must not be written to,
// or is not what it was. Its events wait, those of other topics go on.
var ErrTopicUnavailable = errors.New("topic unavailable")

type classified struct {
	err   error
	class string
}

func (e *classified) Error() string { return e.err.Error() }
func (e *classified) Unwrap() error { return e.err }

// Classify gives an error the short name of its kind, such as "too_large", by which failures are counted and grouped.
// Classify(nil, ...) is nil.
func Classify(err error, class string) error {
	if err == nil {
		return nil
	}
	return &classified{err, class}
}

// Class returns the kind that Classify gave err or anything in its chain, or "".
func Class(err error) string {
	var c *classified
	if errors.As(err, &c) {
		return c.class
	}
	return ""
}
