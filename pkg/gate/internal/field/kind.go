package field

// Kind tells the fields that an engine acts on from all others.
type Kind uint8

// The kinds, by the fields that are of them.
const (
	Other Kind = iota
	Host
	ContentLength
	TransferEncoding
	Connection
	HopByHop // Keep-Alive, Proxy-Connection, Proxy-Authenticate, Proxy-Authorization
	TE
	Upgrade
	Expect
	UserAgent
	ForwardedFor
	ForwardedProto
	ForwardedHost
	Forwarded
	OriginalHost
	NetworkProbe
	NetworkHash
	ProxyRequest
	RevisionRouting // Knative-Serving-Namespace, Knative-Serving-Revision
	ServingTag      // Knative-Serving-Tag
	DefaultRoute    // Knative-Serving-Default-Route
	Trailer
	Date
	Trace      // traceparent, b3 and X-B3-*: what a span of the gate's own replaces
	TraceState // tracestate: goes on as it came
	Gate       // K-Gate-*
)

// Of is the kind of the field with the given name. The length decides what it
// can be, so that most fields cost one comparison or none.
func Of(name []byte) Kind {
	switch len(name) {
	case 2:
		if EqualFold(name, "b3") {
			return Trace
		}
		return ifNamed(name, "te", TE)
	case 4:
		if EqualFold(name, "date") {
			return Date
		}
		return ifNamed(name, "host", Host)
	case 6:
		return ifNamed(name, "expect", Expect)
	case 7:
		if EqualFold(name, "trailer") {
			return Trailer
		}
		return ifNamed(name, "upgrade", Upgrade)
	case 9:
		return ifNamed(name, "forwarded", Forwarded)
	case 10:
		switch name[0] | 0x20 {
		case 'c':
			return ifNamed(name, "connection", Connection)
		case 'k':
			return ifNamed(name, "keep-alive", HopByHop)
		case 't':
			return ifNamed(name, "tracestate", TraceState)
		case 'x':
			return ifNamed(name, "x-b3-flags", Trace)
		}
		return ifNamed(name, "user-agent", UserAgent)
	case 11:
		if EqualFold(name, "x-b3-spanid") {
			return Trace
		}
		return ifNamed(name, "traceparent", Trace)
	case 12:
		if EqualFold(name, "x-b3-traceid") {
			return Trace
		}
		return ifNamed(name, "x-b3-sampled", Trace)
	case 14:
		if EqualFold(name, "k-network-hash") {
			return NetworkHash
		}
		if EqualFold(name, "content-length") {
			return ContentLength
		}
	case 15:
		switch {
		case EqualFold(name, "x-forwarded-for"):
			return ForwardedFor
		case EqualFold(name, "k-network-probe"):
			return NetworkProbe
		case EqualFold(name, "k-proxy-request"):
			return ProxyRequest
		case EqualFold(name, "k-original-host"):
			return OriginalHost
		}
	case 16:
		if EqualFold(name, "x-forwarded-host") {
			return ForwardedHost
		}
		return ifNamed(name, "proxy-connection", HopByHop)
	case 17:
		if EqualFold(name, "transfer-encoding") {
			return TransferEncoding
		}
		if EqualFold(name, "x-b3-parentspanid") {
			return Trace
		}
		return ifNamed(name, "x-forwarded-proto", ForwardedProto)
	case 18:
		return ifNamed(name, "proxy-authenticate", HopByHop)
	case 19:
		if EqualFold(name, "knative-serving-tag") {
			return ServingTag
		}
		return ifNamed(name, "proxy-authorization", HopByHop)
	case 24:
		return ifNamed(name, "knative-serving-revision", RevisionRouting)
	case 29:
		return ifNamed(name, "knative-serving-default-route", DefaultRoute)
	case 25:
		return ifNamed(name, "knative-serving-namespace", RevisionRouting)
	}
	if HasPrefixFold(name, "k-gate-") {
		return Gate
	}
	return Other
}

func ifNamed(name []byte, want string, k Kind) Kind {
	if EqualFold(name, want) {
		return k
	}
	if HasPrefixFold(name, "k-gate-") {
		return Gate
	}
	return Other
}
