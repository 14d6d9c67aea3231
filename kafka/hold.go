package kafka

// line is a sequence of messages none of which may pass a refused one: those of one Publish call, or those of all
// Produce calls up to a generation.
type line struct {
	call       uint64 // 0 for Produce
	generation uint64
}

// hold remembers the lines that had a message refused and so may not go on. It is not safe for concurrent use.
type hold struct {
	call       uint64
	held       bool
	generation uint64
}

func (h *hold) fail(l line) {
	if l.call != 0 {
		h.call = l.call // calls do not interleave, so the last one is enough
		return
	}
	h.held, h.generation = true, max(h.generation, l.generation)
}

// refuses says whether a message of the line would pass a refused one. A later generation may go on; the earlier ones stay
// refused even then, since several senders with generations of their own may share a lane.
func (h *hold) refuses(l line) bool {
	if l.call != 0 {
		return l.call == h.call
	}
	return h.held && l.generation <= h.generation
}
