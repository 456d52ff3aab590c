package http1

import (
	"bytes"
	"net/netip"
)

func (r *request) readTarget(t []byte) error {
	for _, c := range t {
		if c <= ' ' || c == 0x7f {
			return errMalformed
		}
	}
	switch {
	case string(r.method) == "CONNECT":
		r.target = t
		return nil
	case t[0] == '/':
	case len(t) == 1 && t[0] == '*' && string(r.method) == "OPTIONS":
		r.asterisk = true
	default:
		var ok bool
		if t, ok = r.absoluteForm(t); !ok {
			return errMalformed
		}
		r.asterisk = len(t) == 0 && string(r.method) == "OPTIONS" // RFC 9112 section 3.2.4
		if len(t) == 0 {
			t = []byte("/")
		}
	}
	r.target = t
	path := t
	if q := bytes.IndexByte(t, '?'); q >= 0 {
		path = t[:q]
	}
	for i := bytes.IndexByte(path, '%'); i >= 0; {
		if i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2]) {
			return errMalformed
		}
		next := bytes.IndexByte(path[i+3:], '%')
		if next < 0 {
			break
		}
		i += 3 + next
	}
	return nil
}

// absoluteForm splits an absolute-form target (RFC 9112 section 3.2.2) into
// its authority, kept in r.origin, and path with query, which may be empty.
func (r *request) absoluteForm(t []byte) ([]byte, bool) {
	switch {
	case hasFoldPrefix(t, "http://"):
		t = t[len("http://"):]
	case hasFoldPrefix(t, "https://"):
		t = t[len("https://"):]
	default:
		return nil, false
	}
	end := bytes.IndexAny(t, "/?")
	if end < 0 {
		end = len(t)
	}
	r.origin = t[:end]
	if end == 0 || !isHost(r.origin) {
		return nil, false
	}
	switch rest := t[end:]; {
	case len(rest) > 0 && rest[0] == '?':
		return append([]byte{'/'}, rest...), true
	default:
		return rest, true
	}
}

// isHost reports whether v is uri-host [ ":" port ] (RFC 9110 section 7.2).
func isHost(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	port := []byte(nil)
	if v[0] == '[' {
		end := bytes.IndexByte(v, ']')
		if end < 0 || !isIPLiteral(v[1:end]) {
			return false
		}
		if rest := v[end+1:]; len(rest) > 0 {
			if rest[0] != ':' {
				return false
			}
			port = rest[1:]
		}
	} else {
		name := v
		if i := bytes.IndexByte(v, ':'); i >= 0 {
			name, port = v[:i], v[i+1:]
		}
		if len(name) == 0 || !isRegName(name) {
			return false
		}
	}
	for _, c := range port {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// isRegName takes unreserved, sub-delims and whole percent-encodings.
func isRegName(v []byte) bool {
	for i, c := range v {
		if !hostTable[c] || c == '%' && (i+2 >= len(v) || !isHex(v[i+1]) || !isHex(v[i+2])) {
			return false
		}
	}
	return true
}

// isIPLiteral takes what stands between the brackets: an IPv6 address, with
// or without a zone, or a later version's (RFC 3986 section 3.2.2, RFC 6874).
func isIPLiteral(v []byte) bool {
	if len(v) > 0 && v[0]|0x20 == 'v' {
		version, address, found := bytes.Cut(v[1:], []byte{'.'})
		for _, c := range version {
			found = found && isHex(c)
		}
		for _, c := range address {
			found = found && (hostTable[c] && c != '%' || c == ':')
		}
		return found && len(version) > 0 && len(address) > 0
	}
	address, zone, zoned := bytes.Cut(v, []byte{'%'})
	if zoned && (len(zone) < 3 || zone[0] != '2' || zone[1] != '5' || !isRegName(zone[2:]) || bytes.ContainsAny(zone, "!$&'()*+,;=")) {
		return false
	}
	a, err := netip.ParseAddr(string(address))
	return err == nil && a.Is6()
}

// hostTable holds unreserved, sub-delims and "%" (RFC 3986 section 3.2.2).
var hostTable = func() (t [256]bool) {
	for _, b := range []byte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~!$&'()*+,;=%") {
		t[b] = true
	}
	return t
}()
