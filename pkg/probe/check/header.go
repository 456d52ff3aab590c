package check

import (
	"slices"
	"strings"
)

// Header is a header field of a request.
type Header struct{ Name, Value string }

// ValidValue reports whether s is a valid field value.
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

// notForwarded reports whether a field is connection-specific or describes framing (RFC
// 9110 section 7.6.1). Such fields are not forwarded, because a check is a GET without
// a body.
func notForwarded(name string) bool {
	switch strings.ToLower(name) {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "te", "trailer",
		"upgrade", "content-length", "expect", "http2-settings":
		return true
	}
	return false
}
