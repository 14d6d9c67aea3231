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
