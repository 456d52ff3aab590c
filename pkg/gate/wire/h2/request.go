package h2

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// Method returns the method, after CheckRequest.
func (h *Head) Method() []byte { return h.pseudoValue(pMethod) }

// Scheme returns :scheme, after CheckRequest; empty for CONNECT.
func (h *Head) Scheme() []byte { return h.pseudoValue(pScheme) }

// Path returns :path, after CheckRequest: origin form or "*"; empty for CONNECT.
func (h *Head) Path() []byte { return h.pseudoValue(pPath) }

// Protocol returns :protocol of extended CONNECT (RFC 8441 section 4); empty = absent.
func (h *Head) Protocol() []byte { return h.pseudoValue(pProtocol) }

// Authority returns :authority or Host, after CheckRequest. It may be empty.
func (h *Head) Authority() []byte {
	if a := h.pseudoValue(pAuthority); len(a) > 0 || h.host == 0 {
		return a
	}
	return h.ValueOf(&h.Fields[h.host-1])
}

func (h *Head) pseudoValue(p int) []byte {
	if i := h.pseudo[p]; i != 0 {
		return h.ValueOf(&h.Fields[i-1])
	}
	return nil
}

// CheckRequest applies the rules for request heads (RFC 9113 sections 8.2, 8.3.1 and
// 8.5). It accepts extended CONNECT (RFC 8441 section 3).
func (h *Head) CheckRequest() *Error {
	const allowed = 1<<pMethod | 1<<pScheme | 1<<pAuthority | 1<<pPath | 1<<pProtocol
	if err := h.checkFields(allowed); err != nil {
		return err
	}
	method, authority := h.Method(), h.pseudoValue(pAuthority)
	if !field.IsName(method) {
		return errMethod
	}
	if err := h.checkAuthority(authority); err != nil {
		return err
	}
	connect := string(method) == "CONNECT"
	if h.pseudo[pProtocol] != 0 {
		if !connect || !field.IsName(h.Protocol()) {
			return errProtocol
		}
		if len(authority) == 0 {
			return errAuthority
		}
	} else if connect {
		if h.pseudo[pScheme] != 0 || h.pseudo[pPath] != 0 || len(authority) == 0 {
			return errConnect
		}
		return nil
	}
	if !isScheme(h.Scheme()) {
		return errScheme
	}
	if p := h.Path(); !isPath(p) && !(len(p) == 1 && p[0] == '*' && string(method) == "OPTIONS") {
		return errPath
	}
	return nil
}

// checkAuthority checks that :authority and Host are empty or valid, and equal if both
// are present (RFC 9113 section 8.3.1).
func (h *Head) checkAuthority(authority []byte) *Error {
	if len(authority) > 0 && !field.IsHost(authority) {
		return errAuthority
	}
	if h.host == 0 {
		return nil
	}
	host := h.ValueOf(&h.Fields[h.host-1])
	switch {
	case len(host) == 0 && len(authority) == 0 || bytes.Equal(host, authority):
		return nil
	case len(host) > 0 && !field.IsHost(host):
		return errAuthority
	case h.pseudo[pAuthority] != 0 && !sameHost(host, authority, h.Scheme()):
		return errTwoHosts
	}
	return nil
}

// sameHost compares hosts case-insensitively. A missing port equals the default port of
// the scheme (RFC 3986 section 6.2.3).
func sameHost(a, b, scheme []byte) bool {
	port := ":80"
	if field.EqualFold(scheme, "https") {
		port = ":443"
	}
	return bytes.EqualFold(withoutPort(a, port), withoutPort(b, port))
}

func withoutPort(host []byte, port string) []byte {
	host, found := bytes.CutSuffix(host, []byte(":"))
	if !found {
		host = bytes.TrimSuffix(host, []byte(port))
	}
	return host
}

// isScheme reports whether b is a scheme (RFC 3986 section 3.1).
func isScheme(b []byte) bool {
	for i, c := range b {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || !field.IsDigit(c) && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return len(b) > 0
}

// isPath reports whether b is a target in origin form. As in HTTP/1, bytes that should be
// percent-encoded are accepted. White space, control bytes, fragments and invalid
// percent-encodings in the path are rejected.
func isPath(b []byte) bool {
	if len(b) == 0 || b[0] != '/' {
		return false
	}
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case pathBytes[c]:
		case c == '?':
			for _, c := range b[i:] {
				if !pathBytes[c] && c != '?' && c != '%' {
					return false
				}
			}
			return true
		case c == '%' && i+2 < len(b) && field.IsHex(b[i+1]) && field.IsHex(b[i+2]):
			i += 2
		default:
			return false
		}
	}
	return true
}

// pathBytes are the bytes accepted in a path, except the percent sign.
var pathBytes = func() (t [256]bool) {
	for c := range t {
		t[c] = c > ' ' && c != 0x7f && c != '#' && c != '?' && c != '%'
	}
	return t
}()
