package doctor

import "fmt"

// Status is the outcome of a check.
type Status string

// OK is as it should be; Warning works, but not as well or as safely as it could; Failed does not work, or loses something;
// Skipped could not be looked at.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Check is one finding. Where a check is made for each of several things, the name has a colon and the thing behind it.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"` // the effective value and, unless it is OK, what to do: one line
}

func ok(name, format string, args ...any) Check {
	return Check{name, OK, fmt.Sprintf(format, args...)}
}

func warning(name, format string, args ...any) Check {
	return Check{name, Warning, fmt.Sprintf(format, args...)}
}

func failed(name, format string, args ...any) Check {
	return Check{name, Failed, fmt.Sprintf(format, args...)}
}

func skipped(name, format string, args ...any) Check {
	return Check{name, Skipped, fmt.Sprintf(format, args...)}
}
