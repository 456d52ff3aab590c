package gate

import "time"

// Exchange is one request as an observer sees it. It belongs to the engine:
// an observer may keep a pointer between Begin and End of the same exchange,
// not longer, and copies what it wants to keep. The byte slices are valid
// during the calls only.
type Exchange struct {
	Method []byte
	Target []byte
	Status int // as sent or, where nothing could be sent, as Outcome means it

	Proxied         bool   // K-Proxy-Request: activator
	RouteTag        []byte // Knative-Serving-Tag
	DefaultRoute    []byte // Knative-Serving-Default-Route
	HasDefaultRoute bool   // tells an empty field from an absent one
	Outcome         Outcome

	Arrived      time.Duration // the gate's clock when the head was complete
	Admitted     time.Duration // when it got its slot; 0 = never
	Forwarded    time.Duration // when the first byte went to the container; 0 = never
	Answered     time.Duration // when the container's final head was read; 0 = never
	Ended        time.Duration
	RequestBody  int64 // body bytes taken from the client
	ResponseBody int64 // body bytes given to the client

	// Context is free for the observer, from Begin to End.
	Context any
}

// Observer is told of every request that is traffic. The calls come from the
// engine's loops, several at a time: they must be quick and must not block.
type Observer interface {
	// Begin is called when the head is complete, before admission.
	Begin(*Exchange)
	// End is called exactly once for each Begin.
	End(*Exchange)
}
