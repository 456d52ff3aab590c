package embed

import (
	"net/http"
	"strings"
	"unsafe"

	"github.com/queuegate/queuegate/pkg/gate"
)

// head is what the gate reads of a request's header.
type head struct {
	probe                  gate.ProbeHeaders
	routeTag, defaultRoute []byte
	proxied                bool // the activator did it, it says
	gateFields             bool // there are some
	forwardingFields       bool
}

// read goes through a header once: a client may send fields of the gate's under
// any name that begins as theirs do. net/http has put names into their canonical
// form. Without distrust, no peer's word is in doubt.
func (x *head) read(h http.Header, distrust bool) {
	for name, values := range h {
		if len(values) == 0 || len(name) < len("K-Gate-") {
			continue
		}
		switch name[0] {
		case 'U':
			if name == "User-Agent" {
				x.probe.UserAgent = valueOf(values)
			}
		case 'K':
			x.forwardingFields = x.forwardingFields || distrust && gate.IsForwardingField(bytesOf(name))
			switch name {
			case "K-Network-Probe":
				x.probe.NetworkProbe = valueOf(values)
			case "K-Network-Hash":
				x.probe.NetworkHash = valueOf(values)
			case "K-Proxy-Request":
				x.proxied = string(valueOf(values)) == "activator"
			case "Knative-Serving-Tag":
				x.routeTag = valueOf(values)
			case "Knative-Serving-Default-Route":
				x.defaultRoute = valueOf(values)
			default:
				x.gateFields = x.gateFields || name[:len("K-Gate-")] == "K-Gate-"
			}
		case 'F', 'X':
			x.forwardingFields = x.forwardingFields || distrust && gate.IsForwardingField(bytesOf(name))
		}
	}
}

// valueOf is the first value of a field, without white space around it. It must
// not be changed.
func valueOf(values []string) []byte {
	v := values[0]
	if n := len(v); n > 0 && (isBlank(v[0]) || isBlank(v[n-1])) {
		v = strings.Trim(v, " \t")
	}
	return bytesOf(v)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// bytesOf are the bytes of s, which must not be changed.
func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// cleanHeader returns h without the fields that no handler may see: K-Gate-*
// and, unless the peer is trusted, what it says of itself and of others. Without
// such fields it is h itself, else a copy.
func cleanHeader(h http.Header, trusted bool) http.Header {
	clean, copied := h, false
	for name := range h {
		if !isGateField(name) && (trusted || !gate.IsForwardingField(bytesOf(name))) {
			continue
		}
		if !copied {
			clean, copied = h.Clone(), true
		}
		delete(clean, name)
	}
	return clean
}

// dropGateFields removes K-Gate-* fields, also where they are meant as
// trailers.
func dropGateFields(h http.Header) {
	for name := range h {
		if isGateField(name) {
			delete(h, name)
		}
	}
}

func isGateField(name string) bool {
	return gate.IsGateField(bytesOf(strings.TrimPrefix(name, http.TrailerPrefix)))
}
