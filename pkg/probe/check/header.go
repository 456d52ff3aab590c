package check

import (
	"slices"
	"strings"
)

// Header is one field of a request, in the order given.
type Header struct{ Name, Value string }

// ValidValue refuses what would end or split a field line.
func ValidValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func hasHeader(headers []Header, name string) bool {
	return slices.ContainsFunc(headers, func(h Header) bool { return strings.EqualFold(h.Name, name) })
}

// notForwarded names the fields that belong to one connection or frame a body
// (RFC 9110 section 7.6.1); a probe is a GET without a body.
func notForwarded(name string) bool {
	switch strings.ToLower(name) {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "te", "trailer",
		"upgrade", "content-length", "expect", "http2-settings":
		return true
	}
	return false
}
