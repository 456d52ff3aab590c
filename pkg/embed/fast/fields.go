package fast

import (
	"bufio"
	"strings"

	"github.com/valyala/fasthttp"
)

type writer = bufio.Writer

// clean removes from a request what no handler may see: K-Gate-* and, unless
// the peer is trusted, what it says of itself and of others.
func clean(h *fasthttp.RequestHeader, trusted bool) {
	found := false
	for name := range h.All() {
		found = found || isGateField(name) || !trusted && isForwardingField(name)
	}
	if !found {
		return
	}
	var names []string
	for name := range h.All() {
		if isGateField(name) || !trusted && isForwardingField(name) {
			names = append(names, string(name))
		}
	}
	for _, name := range names {
		h.Del(name)
	}
}

func isGateField(name []byte) bool { return hasPrefix(name, "K-Gate-") }

func isForwardingField(name []byte) bool {
	return hasPrefix(name, "X-Forwarded-") || equal(name, "Forwarded") || equal(name, "K-Proxy-Request") || equal(name, "K-Original-Host")
}

func hasPrefix(name []byte, prefix string) bool {
	return len(name) >= len(prefix) && equal(name[:len(prefix)], prefix)
}

func equal(name []byte, other string) bool {
	return len(name) == len(other) && strings.EqualFold(string(name), other)
}
