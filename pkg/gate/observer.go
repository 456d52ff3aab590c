package gate

import (
	"net/netip"
	"time"
)

// Exchange is one request as an observer sees it. It belongs to the engine:
// an observer may keep a pointer between Begin and End of the same exchange,
// not longer, and copies what it wants to keep. The byte slices and Fields are
// valid during the calls only.
type Exchange struct {
	Protocol  string // HTTP/1.0, HTTP/1.1 or HTTP/2.0
	Method    []byte
	Target    []byte // as it goes on: path and query
	Host      []byte // as the container sees it
	UserAgent []byte // nil when absent
	Peer      netip.AddrPort
	Encrypted bool         // came over TLS
	Fields    Fields       // all header fields as they came
	Trace     *TraceFields // nil when there is no trace context
	Status    int          // as sent or, where nothing could be sent, as Outcome means it

	// TraceLines is set by the observer during Begin: field lines, each with
	// its CRLF, that the container gets in the place of the trace context that
	// came (tracestate stays). They must not change before End. nil = the
	// context goes on as it came.
	TraceLines []byte

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

// Fields enumerates header fields in order, repeated ones included.
type Fields interface {
	Each(yield func(name, value []byte) bool)
}

// Observer is told of every request that is traffic. The calls come from the
// engines, several at a time: they must be quick and must not block.
type Observer interface {
	// Begin is called when the head is complete, before admission.
	Begin(*Exchange)
	// End is called exactly once for each Begin.
	End(*Exchange)
	// Rejected is called for what never became a request: a head that was
	// refused. Nothing else is told of it.
	Rejected(Outcome)
	// Probed is called, in the place of Begin and End, for a probe when its
	// answer is known.
	Probed(*Exchange)
}
