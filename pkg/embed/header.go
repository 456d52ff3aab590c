package embed

import (
	"net/http"
	"strings"
	"unsafe"

	"github.com/queuegate/queuegate/pkg/gate"
)

// head holds the fields of a request that the gate reads.
type head struct {
	probe                  gate.ProbeHeaders
	routeTag, defaultRoute []byte
	proxied                bool // K-Proxy-Request says that the activator forwarded the request
	gateFields             bool // the request contains K-Gate-* fields
	forwardingFields       bool
}

// read reads the fields in one pass. Field names are in net/http's canonical form. The
// parameter distrust is false if all peers are trusted.
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

// valueOf returns the first value, trimmed. The caller must not modify it.
func valueOf(values []string) []byte {
	v := values[0]
	if n := len(v); n > 0 && (isBlank(v[0]) || isBlank(v[n-1])) {
		v = strings.Trim(v, " \t")
	}
	return bytesOf(v)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// bytesOf returns the bytes of s. The caller must not modify them.
func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// cleanHeader returns h without the fields that no handler may see. These are K-Gate-*
// and, if the peer is untrusted, the fields that the gate accepts only from trusted
// peers. It copies h only if h contains such fields.
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

// dropGateFields removes K-Gate-* fields, including announced trailers.
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
