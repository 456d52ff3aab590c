package embed

import (
	"net/http"
	"strings"
	"unsafe"
)

// first is the first value of a field, without white space around it; nil when
// absent. It must not be changed.
func first(h http.Header, name string) []byte {
	values := h[name]
	if len(values) == 0 {
		return nil
	}
	return bytesOf(strings.Trim(values[0], " \t"))
}

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
func cleanHeader(h http.Header, trusted bool) (clean http.Header, removed bool) {
	clean = h
	for name := range h {
		if !isGateField(name) && (trusted || !isForwardingField(name)) {
			continue
		}
		if !removed {
			clean, removed = h.Clone(), true
		}
		delete(clean, name)
	}
	return clean, removed
}

// isForwardingField reports whether a field is one that only trusted peers may
// send.
func isForwardingField(name string) bool {
	const prefix = "X-Forwarded-"
	switch len(name) {
	case len("Forwarded"):
		return strings.EqualFold(name, "Forwarded")
	case len("K-Proxy-Request"): // and that of K-Original-Host
		if strings.EqualFold(name, "K-Proxy-Request") || strings.EqualFold(name, "K-Original-Host") {
			return true
		}
	}
	return len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
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
	const prefix = "K-Gate-"
	if name == "" {
		return false
	}
	if name[0]|0x20 == 't' {
		name = strings.TrimPrefix(name, http.TrailerPrefix)
	}
	return len(name) >= len(prefix) && name[0]|0x20 == 'k' && strings.EqualFold(name[:len(prefix)], prefix)
}
