package wire

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

func (r *Request) readTarget(t []byte) error {
	for _, c := range t {
		if c <= ' ' || c == 0x7f {
			return ErrMalformed
		}
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
	for i := bytes.IndexByte(path, '%'); i >= 0; {
		if i+2 >= len(path) || !field.IsHex(path[i+1]) || !field.IsHex(path[i+2]) {
			return ErrMalformed
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
// its authority, kept in r.hosts.origin, and path with query, which may be empty.
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
	if end == 0 || !gate.IsHost(r.hosts.origin) {
		return nil, false
	}
	switch rest := t[end:]; {
	case len(rest) > 0 && rest[0] == '?':
		return append([]byte{'/'}, rest...), true
	default:
		return rest, true
	}
}
