package wire

import (
	"bytes"
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

const (
	// listGrowth is a bound for the forwarded head as a multiple of the received head.
	// X-Forwarded-For grows most: the gate forwards it and adds a Forwarded field, in
	// which two octets of X-Forwarded-For can become ten octets.
	listGrowth = 8
	// listExtra is the number of octets reserved for fields that do not depend on the
	// received head, such as :scheme, TE and the peer's address.
	listExtra = 1 << 10
)

// FitsList reports whether the header list written by AppendHTTP2 has at most limit
// octets (RFC 9113 section 6.5.2). It first estimates an upper bound, which is cheap. It
// counts the octets exactly only if this bound exceeds the limit.
func (r *Request) FitsList(limit int, peer netip.Addr, defaultHost []byte, scheme string) bool {
	bound := len(r.Raw) + fieldOverhead*len(r.Fields) + len(r.traceLines()) + len(defaultHost)
	if listGrowth*bound+listExtra <= limit {
		return true
	}
	e := h2.NewCounter()
	r.AppendHTTP2(nil, &e, peer, defaultHost, scheme)
	return e.Counted() <= limit
}

const fieldOverhead = 32

// TrailersFit reports whether the header list of the trailers has at most limit octets.
// The parameter lines holds the trailers as field lines with their CRLF.
func TrailersFit(lines []byte, limit int) bool {
	if len(lines)+fieldOverhead*bytes.Count(lines, []byte{'\n'}) <= limit {
		return true
	}
	e := h2.NewCounter()
	AppendLines(nil, &e, lines)
	return e.Counted() <= limit
}
