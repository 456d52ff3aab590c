package wire

import (
	"bytes"
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// Upper bounds for the fields that the gate adds to a head. Forwarded grows most: an
// element of two octets in X-Forwarded-For becomes one of ten octets.
const (
	listGrowth = 8
	listExtra  = 1 << 10 // pseudo-fields, the peer's address and te
)

// FitsList reports whether the header list that AppendHTTP2 writes for the request has at
// most limit octets (RFC 9113 section 6.5.2). If the head is far below the limit, the
// fields are not counted one by one.
func (r *Request) FitsList(limit int, peer netip.Addr, defaultHost []byte, scheme string) bool {
	bound := len(r.Raw) + fieldOverhead*len(r.Fields) + len(r.traceLines()) + len(defaultHost)
	if listGrowth*bound+listExtra <= limit {
		return true
	}
	e := h2.NewCounter()
	r.AppendHTTP2(nil, &e, peer, defaultHost, scheme)
	return e.Counted() <= limit
}

// fieldOverhead is added for each field of a header list.
const fieldOverhead = 32

// TrailersFit reports whether the header list of the trailers has at most limit octets.
// lines are field lines, each with its CRLF.
func TrailersFit(lines []byte, limit int) bool {
	if len(lines)+fieldOverhead*bytes.Count(lines, []byte{'\n'}) <= limit {
		return true
	}
	e := h2.NewCounter()
	AppendLines(nil, &e, lines)
	return e.Counted() <= limit
}
