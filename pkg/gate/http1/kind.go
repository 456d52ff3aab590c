package http1

import "bytes"

// kind tells the fields that the engine acts on from all others.
type kind uint8

const (
	kindOther kind = iota
	kindHost
	kindContentLength
	kindTransferEncoding
	kindConnection
	kindHopByHop // Keep-Alive, Proxy-Connection, Proxy-Authenticate, Proxy-Authorization
	kindTE
	kindUpgrade
	kindExpect
	kindUserAgent
	kindForwardedFor
	kindForwardedProto
	kindForwardedHost
	kindForwarded
	kindOriginalHost
	kindNetworkProbe
	kindNetworkHash
	kindProxyRequest
	kindRevisionRouting // Knative-Serving-Namespace, Knative-Serving-Revision
	kindServingTag      // Knative-Serving-Tag
	kindDefaultRoute    // Knative-Serving-Default-Route
	kindTrailer
	kindDate
	kindTrace      // traceparent, b3 and X-B3-*: what a span of the gate's own replaces
	kindTraceState // tracestate: goes on as it came
	kindGate       // K-Gate-*
)

// kindOf names a field. The length decides what it can be, so that most
// fields cost one comparison or none.
func kindOf(name []byte) kind {
	switch len(name) {
	case 2:
		if foldEqual(name, "b3") {
			return kindTrace
		}
		return kindIf(name, "te", kindTE)
	case 4:
		if foldEqual(name, "date") {
			return kindDate
		}
		return kindIf(name, "host", kindHost)
	case 6:
		return kindIf(name, "expect", kindExpect)
	case 7:
		if foldEqual(name, "trailer") {
			return kindTrailer
		}
		return kindIf(name, "upgrade", kindUpgrade)
	case 9:
		return kindIf(name, "forwarded", kindForwarded)
	case 10:
		switch name[0] | 0x20 {
		case 'c':
			return kindIf(name, "connection", kindConnection)
		case 'k':
			return kindIf(name, "keep-alive", kindHopByHop)
		case 't':
			return kindIf(name, "tracestate", kindTraceState)
		case 'x':
			return kindIf(name, "x-b3-flags", kindTrace)
		}
		return kindIf(name, "user-agent", kindUserAgent)
	case 11:
		if foldEqual(name, "x-b3-spanid") {
			return kindTrace
		}
		return kindIf(name, "traceparent", kindTrace)
	case 12:
		if foldEqual(name, "x-b3-traceid") {
			return kindTrace
		}
		return kindIf(name, "x-b3-sampled", kindTrace)
	case 14:
		if foldEqual(name, "k-network-hash") {
			return kindNetworkHash
		}
		if foldEqual(name, "content-length") {
			return kindContentLength
		}
	case 15:
		switch {
		case foldEqual(name, "x-forwarded-for"):
			return kindForwardedFor
		case foldEqual(name, "k-network-probe"):
			return kindNetworkProbe
		case foldEqual(name, "k-proxy-request"):
			return kindProxyRequest
		case foldEqual(name, "k-original-host"):
			return kindOriginalHost
		}
	case 16:
		if foldEqual(name, "x-forwarded-host") {
			return kindForwardedHost
		}
		return kindIf(name, "proxy-connection", kindHopByHop)
	case 17:
		if foldEqual(name, "transfer-encoding") {
			return kindTransferEncoding
		}
		if foldEqual(name, "x-b3-parentspanid") {
			return kindTrace
		}
		return kindIf(name, "x-forwarded-proto", kindForwardedProto)
	case 18:
		return kindIf(name, "proxy-authenticate", kindHopByHop)
	case 19:
		if foldEqual(name, "knative-serving-tag") {
			return kindServingTag
		}
		return kindIf(name, "proxy-authorization", kindHopByHop)
	case 24:
		return kindIf(name, "knative-serving-revision", kindRevisionRouting)
	case 29:
		return kindIf(name, "knative-serving-default-route", kindDefaultRoute)
	case 25:
		return kindIf(name, "knative-serving-namespace", kindRevisionRouting)
	}
	if hasFoldPrefix(name, "k-gate-") {
		return kindGate
	}
	return kindOther
}

func kindIf(name []byte, want string, k kind) kind {
	if foldEqual(name, want) {
		return k
	}
	if hasFoldPrefix(name, "k-gate-") {
		return kindGate
	}
	return kindOther
}

// foldEqual compares with a lower-case ASCII string, ignoring case.
func foldEqual(b []byte, lower string) bool {
	return len(b) == len(lower) && hasFoldPrefix(b, lower)
}

func hasFoldPrefix(b []byte, lower string) bool {
	if len(b) < len(lower) {
		return false
	}
	for i := 0; i < len(lower); i++ {
		c := b[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// isProtected lists the fields that Connection cannot remove: a client could
// otherwise take away what the platform, or this gate, says about the request.
func isProtected(name []byte) bool {
	return foldEqual(name, "host") || foldEqual(name, "forwarded") ||
		hasFoldPrefix(name, "x-forwarded-") || hasFoldPrefix(name, "k-") || hasFoldPrefix(name, "content-")
}

// allMayTrail reports whether a Trailer field announces nothing that mayTrail
// forbids.
func allMayTrail(v []byte) bool {
	return options(v, mayTrail)
}

// appendTrailer writes a Trailer field without the names that may not trail,
// or nothing if none is left.
func appendTrailer(dst, v []byte) []byte {
	sep := "Trailer: "
	options(v, func(name []byte) bool {
		if mayTrail(name) {
			dst = append(append(dst, sep...), name...)
			sep = ", "
		}
		return true
	})
	if sep == ", " {
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// mayTrail tells trailer fields that may go on from those that frame or route
// a message and therefore must not come late (RFC 9110 section 6.5.1).
func mayTrail(name []byte) bool {
	switch kindOf(name) {
	case kindOther, kindDate, kindUserAgent, kindTrace, kindTraceState:
		return !bytes.EqualFold(name, []byte("authorization")) && !isProtected(name) && !hasFoldPrefix(name, "knative-serving-")
	}
	return false
}
