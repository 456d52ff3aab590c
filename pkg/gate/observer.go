package gate

// Fields enumerates header fields in order, repeated ones included.
type Fields interface {
	Each(yield func(name, value []byte) bool)
}

// Observer is notified of every request that is traffic. The calls come from the
// engines, several at a time: they must be quick and must not block.
type Observer interface {
	// Begin is called when the head is complete, before admission.
	Begin(*Record)
	// End is called exactly once for each Begin.
	End(*Record)
	// Rejected is called for what never became a request: a head that was
	// refused. No other call follows.
	Rejected(Outcome)
	// Probed is called, in the place of Begin and End, for a probe when its
	// answer is known.
	Probed(*Record)
}
