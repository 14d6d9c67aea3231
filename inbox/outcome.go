package inbox

// Outcome is what became of a delivery. Both outcomes mean: acknowledge.
type Outcome int

const (
	// Applied says that this call's transaction committed.
	Applied Outcome = iota + 1
	// Duplicate says that the event had been disposed of before, or is being disposed of elsewhere, and nothing was done.
	Duplicate
)
