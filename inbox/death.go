package inbox

// Classes of dead events.
const (
	ClassTransient = "transient" // retried, and failed every time
	ClassPermanent = "permanent" // event.Permanent: no retry could mend it
	ClassPanic     = "panic"     // the handler panicked or called runtime.Goexit
	ClassTimeout   = "timeout"   // the handler ran out of time
)

// Death is why a consumer gave an event up. The texts are stored as they are: whoever makes them keeps row data out of them.
// Bytes that PostgreSQL cannot store as text are replaced.
type Death struct {
	Class      string
	FirstError string
	LastError  string
	Stack      string
}
