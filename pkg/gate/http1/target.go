package http1

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate"
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
// its authority, kept in r.origin, and path with query.
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
	case len(rest) == 0:
		return []byte("/"), true
	case rest[0] == '?':
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
		if end < 2 {
			return false
		}
		for _, c := range v[1:end] {
			if !isHex(c) && c != ':' && c != '.' && c != '%' && !gate.IsToken(c) {
				return false
			}
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
		if len(name) == 0 {
			return false
		}
		for _, c := range name {
			if !hostTable[c] {
				return false
			}
		}
	}
	for _, c := range port {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// hostTable holds unreserved, sub-delims and "%" (RFC 3986 section 3.2.2).
var hostTable = func() (t [256]bool) {
	for _, b := range []byte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~!$&'()*+,;=%") {
		t[b] = true
	}
	return t
}()
