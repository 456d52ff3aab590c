package gate

import (
	"net/netip"
	"time"
)

// Record is what an observer sees of a request. It may keep a pointer between
// Begin and End of the same request, not longer, and copies what it wants to
// keep. The byte slices and Fields are valid during the calls only.
type Record struct {
	Protocol  string // HTTP/1.0, HTTP/1.1 or HTTP/2.0
	Method    []byte
	Target    []byte // as it goes on: path and query
	Host      []byte // as the container sees it
	UserAgent []byte // nil when absent
	Peer      netip.AddrPort
	Fields    Fields       // all header fields as they came
	Trace     *TraceFields // nil when there is no trace context
	Status    int          // as sent or, where nothing could be sent, as Outcome means it

	// TraceLines is set by the observer during Begin: field lines, each with
	// its CRLF, that the container gets in the place of the trace context that
	// came (tracestate stays). They must not change before End. nil = the
	// context goes on as it came.
	TraceLines []byte

	RouteTag        []byte // Knative-Serving-Tag
	DefaultRoute    []byte // Knative-Serving-Default-Route
	HasDefaultRoute bool   // tells an empty field from an absent one
	Proxied         bool   // K-Proxy-Request: activator
	Upgrade         bool   // asks for another protocol
	Encrypted       bool   // came over TLS
	Unlimited       bool   // for one of UNLIMITED_PATHS: it has no slot, and does not count
	Outcome         Outcome

	Arrived      time.Duration // the gate's clock when the head was complete
	Admitted     time.Duration // when it got its slot; 0 = never
	Forwarded    time.Duration // when the first byte went to the container; 0 = never
	Responded    time.Duration // when the container's final head was read; 0 = never
	Ended        time.Duration
	RequestBody  int64 // body bytes taken from the client
	ResponseBody int64 // body bytes given to the client

	// Context is free for the observer, from Begin to End.
	Context any
}

// Reset forgets the last request, and returns r for the next one's side to
// fill in what its head says.
func (r *Record) Reset() *Record {
	*r = Record{}
	return r
}

// Took is the time from arrival to the end.
func (r *Record) Took() time.Duration { return r.Ended - r.Arrived }

// QueueWait is the time from arrival until it got its slot, or until its end if
// it got none.
func (r *Record) QueueWait() time.Duration {
	if r.Admitted == 0 {
		return r.Took()
	}
	return r.Admitted - r.Arrived
}

// UpstreamTime is the time from the first byte that went to the container to
// the end; 0 if none did.
func (r *Record) UpstreamTime() time.Duration {
	if r.Forwarded == 0 {
		return 0
	}
	return r.Ended - r.Forwarded
}

// Route is how Knative's ingress says that a request found its revision.
type Route uint8

// The routes.
const (
	RouteDisabled  Route = iota // nothing is said of tags
	RouteDefault                // the default route, without a tag
	RouteUndefined              // a tag that the route does not have
	RouteTagged                 // the tag in Record.RouteTag
)

// Route reads the fields Knative-Serving-Tag and Knative-Serving-Default-Route.
func (r *Record) Route() Route {
	switch {
	case len(r.RouteTag) == 0 && !r.HasDefaultRoute:
		return RouteDisabled
	case len(r.RouteTag) == 0:
		return RouteDefault
	case string(r.DefaultRoute) == "true":
		return RouteUndefined
	}
	return RouteTagged
}

// String is the value of kn.route.tag, but for RouteTagged, whose value is the
// tag.
func (r Route) String() string {
	return [...]string{"kn:disabled", "kn:default", "kn:undefined", ""}[r]
}

// Methods are those that metrics and spans tell apart; the first stands for all
// others.
var Methods = [...]string{"_OTHER", "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// MethodIndex is the index of the method among Methods, which are
// case-sensitive (RFC 9110 section 9.1).
func (r *Record) MethodIndex() int {
	for i := 1; i < len(Methods); i++ {
		if string(r.Method) == Methods[i] {
			return i
		}
	}
	return 0
}
