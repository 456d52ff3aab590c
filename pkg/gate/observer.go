package gate

// Fields enumerates header fields in order, including repeated ones.
type Fields interface {
	Each(yield func(name, value []byte) bool)
}

// Observer is notified of traffic (Begin and End), of requests with an invalid head
// (Rejected) and of probes (Probed). The engines call its methods concurrently. The
// methods must be fast and must not block.
type Observer interface {
	// Begin is called when the head is complete, before admission.
	Begin(*Record)
	// End is called exactly once for each Begin.
	End(*Record)
	// Rejected is called for a request whose head was rejected before Begin. No other
	// call follows for that request.
	Rejected(Outcome)
	// Probed is called for a probe when its reply is known. Begin and End are not called
	// for probes.
	Probed(*Record)
}
