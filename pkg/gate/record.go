package gate

import (
	"net/netip"
	"time"
)

// Record describes a request for observers. An observer may keep a pointer to it
// between Begin and End of the same request, but not longer. The byte slices and Fields
// are valid only during the calls.
type Record struct {
	Protocol  string // HTTP/1.0, HTTP/1.1 or HTTP/2.0
	Method    []byte
	Target    []byte // path and query, as forwarded
	Host      []byte // host, as sent to the container
	UserAgent []byte // nil = absent
	Peer      netip.AddrPort
	Fields    Fields       // all received header fields
	Trace     *TraceFields // nil = no trace context
	// Status is the status sent to the client. If no response could be sent, it is the
	// status that the local reply of the outcome would have had.
	Status int

	// TraceLines holds field lines, each with its CRLF. In the forwarded request they
	// replace the received trace context fields; only tracestate is still forwarded. The
	// observer may set TraceLines during Begin, and must not change the bytes before End.
	// nil = all received trace context fields are forwarded.
	TraceLines []byte

	RouteTag        []byte // Knative-Serving-Tag
	DefaultRoute    []byte // Knative-Serving-Default-Route
	HasDefaultRoute bool   // Knative-Serving-Default-Route was received, possibly empty
	Proxied         bool   // K-Proxy-Request is "activator": the request came through Knative's activator
	Upgrade         bool   // asks for another protocol
	Encrypted       bool   // received over TLS
	Unlimited       bool   // the path matches UNLIMITED_PATHS: the request needs no slot and is not counted
	Outcome         Outcome

	Arrived      time.Duration // when the head was complete, on the gate's clock
	Admitted     time.Duration // when the request got a slot; 0 = never
	Forwarded    time.Duration // when the first byte of the request was sent to the container; 0 = never
	Responded    time.Duration // when the final response head was read; 0 = never
	Ended        time.Duration
	RequestBody  int64 // body bytes read from the client
	ResponseBody int64 // body bytes sent to the client

	// Context is a value that the observer may set in Begin and read until End.
	Context any
}

// Reset clears r and returns it.
func (r *Record) Reset() *Record {
	*r = Record{}
	return r
}

// Took returns the time from arrival to end.
func (r *Record) Took() time.Duration { return r.Ended - r.Arrived }

// QueueWait returns the time from arrival until the request got a slot, or until its
// end if it got none.
func (r *Record) QueueWait() time.Duration {
	if r.Admitted == 0 {
		return r.Took()
	}
	return r.Admitted - r.Arrived
}

// UpstreamTime returns the time from the first byte sent to the container to the end of
// the request; 0 if no byte was sent.
func (r *Record) UpstreamTime() time.Duration {
	if r.Forwarded == 0 {
		return 0
	}
	return r.Ended - r.Forwarded
}

// Route classifies the routing fields of Knative's ingress.
type Route uint8

// The routes.
const (
	RouteDisabled  Route = iota // the request has no tag fields
	RouteDefault                // the default route, selected without a tag
	RouteUndefined              // the request has a tag that the route does not know
	RouteTagged                 // the request has the tag in Record.RouteTag
)

// Route evaluates Knative-Serving-Tag and Knative-Serving-Default-Route.
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

// String returns the value of the span attribute kn.route.tag. The value for RouteTagged
// is the tag itself, which the caller must use instead.
func (r Route) String() string {
	return [...]string{"kn:disabled", "kn:default", "kn:undefined", ""}[r]
}

// Methods are the methods that metrics and spans distinguish. The first entry represents
// all other methods.
var Methods = [...]string{"_OTHER", "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// MethodIndex returns the index of the request's method in Methods. Methods are
// case-sensitive (RFC 9110 section 9.1).
func (r *Record) MethodIndex() int {
	for i := 1; i < len(Methods); i++ {
		if string(r.Method) == Methods[i] {
			return i
		}
	}
	return 0
}
