package wire

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

func (r *Request) readTarget(t []byte) error {
	if hasBlank(t) { // Scan has rejected all control bytes except tab
		return ErrMalformed
	}
	switch {
	case string(r.Method) == "CONNECT":
		r.Target = t
		return nil
	case t[0] == '/':
	case len(t) == 1 && t[0] == '*' && string(r.Method) == "OPTIONS":
		r.Asterisk = true
	default:
		var ok bool
		if t, ok = r.absoluteForm(t); !ok {
			return ErrMalformed
		}
		r.Asterisk = len(t) == 0 && string(r.Method) == "OPTIONS" // RFC 9112 section 3.2.4
		if len(t) == 0 {
			t = []byte("/")
		}
	}
	r.Target = t
	path := t
	if q := bytes.IndexByte(t, '?'); q >= 0 {
		path = t[:q]
	}
	if !validEscaping(path) {
		return ErrMalformed
	}
	return nil
}

// hasBlank reports whether t contains a space or a tab. A loop is faster than two
// searches if t is short.
func hasBlank(t []byte) bool {
	const short = 32
	if len(t) > short {
		return bytes.IndexByte(t, ' ') >= 0 || bytes.IndexByte(t, '\t') >= 0
	}
	for _, c := range t {
		if c == ' ' || c == '\t' {
			return true
		}
	}
	return false
}

// asciiTarget percent-encodes the bytes above 0x7f. A URI has none (RFC 3986 section 2),
// but HTTP/1 clients send them. Some HTTP/2 servers, such as hypercorn, then close the
// connection with all its requests.
func asciiTarget(t []byte) []byte {
	const hex = "0123456789ABCDEF"
	i := 0
	for i < len(t) && t[i] < 0x80 {
		i++
	}
	if i == len(t) {
		return t
	}
	encoded := append(make([]byte, 0, 3*len(t)), t[:i]...)
	for _, c := range t[i:] {
		if c < 0x80 {
			encoded = append(encoded, c)
		} else {
			encoded = append(encoded, '%', hex[c>>4], hex[c&15])
		}
	}
	return encoded
}

// validEscaping reports whether two hexadecimal digits follow each percent sign. The next
// percent sign is often near. So a loop searches the next 16 bytes first, and
// bytes.IndexByte searches the rest. For short distances, the loop is faster.
func validEscaping(path []byte) bool {
	const near = 16
	for {
		n := min(len(path), near)
		i := 0
		for i < n && path[i] != '%' {
			i++
		}
		if i == n {
			next := bytes.IndexByte(path[n:], '%')
			if next < 0 {
				return true
			}
			i += next
		}
		for i+2 < len(path) && path[i] == '%' {
			if !field.IsHex(path[i+1]) || !field.IsHex(path[i+2]) {
				return false
			}
			i += 3
		}
		if path = path[i:]; len(path) > 0 && path[0] == '%' {
			return false
		}
	}
}

// absoluteForm splits a target in absolute form (RFC 9112 section 3.2.2). It stores the
// authority in r.hosts.origin and returns the path and query, which may be empty.
func (r *Request) absoluteForm(t []byte) ([]byte, bool) {
	switch {
	case field.HasPrefixFold(t, "http://"):
		t = t[len("http://"):]
	case field.HasPrefixFold(t, "https://"):
		t = t[len("https://"):]
	default:
		return nil, false
	}
	end := bytes.IndexAny(t, "/?")
	if end < 0 {
		end = len(t)
	}
	r.hosts.origin = t[:end]
	if end == 0 || !field.IsHost(r.hosts.origin) {
		return nil, false
	}
	switch rest := t[end:]; {
	case len(rest) > 0 && rest[0] == '?':
		return append([]byte{'/'}, rest...), true
	default:
		return rest, true
	}
}
