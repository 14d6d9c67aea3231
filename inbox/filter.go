package inbox

import (
	"errors"
	"fmt"
)

// MaxPage is the most dead letters List returns at once.
const MaxPage = 1000

// Filter picks dead letters. An empty field matches everything.
type Filter struct {
	Consumer   string
	Topic      string
	EventID    string
	ErrorClass string

	// After continues a listing behind its last element: DeadLetter.Cursor. The zero value starts at the oldest death.
	After Cursor
	// Limit is the page size, default 100, at most MaxPage.
	Limit int
}

func (f *Filter) setDefaults() {
	if f.Limit == 0 {
		f.Limit = 100
	}
}

// Validate names every bad field.
func (f Filter) Validate() error {
	var errs []error
	if f.Limit < 0 || f.Limit > MaxPage {
		errs = append(errs, fmt.Errorf("Limit %d is not between 1 and %d", f.Limit, MaxPage))
	}
	for _, s := range []string{f.Consumer, f.Topic, f.EventID, f.ErrorClass, f.After.Consumer, f.After.EventID} {
		if !isText(s) {
			errs = append(errs, errors.New("a field is not valid UTF-8 without NUL"))
			break
		}
	}
	return errors.Join(errs...)
}
