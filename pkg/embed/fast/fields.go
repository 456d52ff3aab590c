package fast

import (
	"bufio"
	"bytes"

	"github.com/valyala/fasthttp"

	"github.com/queuegate/queuegate/pkg/gate"
)

type writer = bufio.Writer

// head holds the fields of a request that the gate reads. Its values are valid until
// the header of the request is changed or reused.
type head struct {
	probe                  gate.ProbeHeaders
	routeTag, defaultRoute []byte // nil if absent or empty, like all values here
	proxyRequest           []byte
	gateFields             bool // the request contains K-Gate-* fields
	forwardingFields       bool
}

// read reads the fields in one pass over the received head, because the method All of
// fasthttp would also parse cookies. A request that the program itself has created has no
// received head, so read uses All for it. The parameter distrust is false if all peers
// are trusted.
func (x *head) read(h *fasthttp.RequestHeader, distrust bool) {
	x.probe.UserAgent = present(h.UserAgent())
	raw := h.RawHeaders()
	if len(raw) == 0 {
		for name, value := range h.All() {
			x.take(name, value, distrust)
		}
		return
	}
	chunked := false
	for len(raw) > 0 {
		end := bytes.IndexByte(raw, '\n')
		if end < 0 {
			end = len(raw) - 1
		}
		line := raw[:end+1]
		raw = raw[end+1:]
		switch line[0] | 0x20 {
		case 'f', 'x':
			if !distrust {
				continue
			}
		case 'k':
		case 't':
			chunked = chunked || hasPrefix(line, "Transfer-Encoding")
			continue
		default:
			continue
		}
		if colon := bytes.IndexByte(line, ':'); colon > 0 {
			x.take(bytes.Trim(line[:colon], space), bytes.Trim(line[colon+1:], space), distrust)
		}
	}
	if chunked { // fasthttp has added the trailers to h, but not to the received head
		var trailers head
		for name := range h.All() {
			trailers.take(name, nil, distrust)
		}
		x.gateFields, x.forwardingFields = x.gateFields || trailers.gateFields, x.forwardingFields || trailers.forwardingFields
	}
}

// space is white space, including line ends.
const space = " \t\r\n"

// take processes one field. The first value of a repeated field counts.
func (x *head) take(name, value []byte, distrust bool) {
	if len(name) < len("K-Gate-") {
		return
	}
	x.forwardingFields = x.forwardingFields || distrust && gate.IsForwardingField(name)
	if name[0]|0x20 != 'k' {
		return
	}
	switch {
	case gate.IsGateField(name):
		x.gateFields = true
	case equal(name, "K-Proxy-Request"):
		first(&x.proxyRequest, value)
	case equal(name, "K-Network-Probe"):
		first(&x.probe.NetworkProbe, value)
	case equal(name, "K-Network-Hash"):
		first(&x.probe.NetworkHash, value)
	case equal(name, "Knative-Serving-Tag"):
		first(&x.routeTag, value)
	case equal(name, "Knative-Serving-Default-Route"):
		first(&x.defaultRoute, value)
	}
}

func first(to *[]byte, value []byte) {
	if *to == nil {
		*to = present(value)
	}
}

// clean removes the fields that no handler may see. These are K-Gate-* and, if the peer
// is untrusted, the fields that the gate accepts only from trusted peers.
func clean(h *fasthttp.RequestHeader, trusted bool) {
	var names []string
	for name := range h.All() {
		if gate.IsGateField(name) || !trusted && gate.IsForwardingField(name) {
			names = append(names, string(name))
		}
	}
	for _, name := range names {
		h.Del(name)
	}
}

func hasPrefix(name []byte, prefix string) bool {
	return len(name) >= len(prefix) && equal(name[:len(prefix)], prefix)
}

func equal(name []byte, other string) bool {
	if len(name) != len(other) {
		return false
	}
	for i := range name {
		if name[i] != other[i] && (name[i]|0x20 != other[i]|0x20 || name[i]|0x20 < 'a') {
			return false
		}
	}
	return true
}

// fields implements gate.Fields for a request header.
type fields struct{ *fasthttp.RequestHeader }

// Each implements gate.Fields.
func (f fields) Each(yield func(name, value []byte) bool) { f.All()(yield) }
