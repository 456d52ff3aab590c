package wire

import (
	"bytes"
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// Bounds of what the gate adds to a head. Forwarded grows most: two octets of
// X-Forwarded-For can become ten octets.
const (
	listGrowth = 8
	listExtra  = 1 << 10 // pseudo-fields, the peer's address and te
)

// FitsList reports whether the header list written by AppendHTTP2 has at most limit
// octets (RFC 9113 section 6.5.2). The list is counted only if an upper bound exceeds the
// limit.
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
// lines are field lines with their CRLF.
func TrailersFit(lines []byte, limit int) bool {
	if len(lines)+fieldOverhead*bytes.Count(lines, []byte{'\n'}) <= limit {
		return true
	}
	e := h2.NewCounter()
	AppendLines(nil, &e, lines)
	return e.Counted() <= limit
}
