package middleware

import "fmt"

// PanicError is what Recoverer makes of a handler that did not return. It is a transient failure.
type PanicError struct {
	// Value is what the handler panicked with, nil after runtime.Goexit.
	Value any
	// Stack is the handler's goroutine at that moment.
	Stack []byte
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "handler called runtime.Goexit"
	}
	return fmt.Sprintf("handler panicked: %v", e.Value)
}
