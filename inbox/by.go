package inbox

import "errors"

// By says who asks for something to be done, and why. It goes to the audit.
type By struct {
	Actor  string
	Reason string
}

// Validate names every bad field: both are required.
func (b By) Validate() error {
	var errs []error
	if b.Actor == "" || !isText(b.Actor) {
		errs = append(errs, errors.New("Actor is empty or not valid UTF-8 without NUL"))
	}
	if b.Reason == "" || !isText(b.Reason) {
		errs = append(errs, errors.New("Reason is empty or not valid UTF-8 without NUL"))
	}
	return errors.Join(errs...)
}
