package middleware

// RetryError is the failure of a message that Retry gives up. It reads and unwraps as the last error.
type RetryError struct {
	// Attempts that failed, infrastructure errors not counted.
	Attempts int
	First    error
	Last     error
}

func (e *RetryError) Error() string { return e.Last.Error() }

// Unwrap returns the last error.
func (e *RetryError) Unwrap() error { return e.Last }
