package wire

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// connection is what the Connection fields say.
type Connection struct {
	Close, KeepAlive, Upgrade bool
}

// fewNames is how many names in Connection are looked up among the fields one
// by one; beyond it a set keeps the work linear.
const fewNames = 8

// readConnection evaluates Connection (RFC 9110 section 7.6.1) and marks the
// fields that it names, except those that name the request to the container.
func (h *Head) readConnection() (c Connection) {
	var few [fewNames][]byte
	names := few[:0]
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.kind != field.Connection {
			continue
		}
		v := h.value(f)
		switch {
		case field.EqualFold(v, "keep-alive"):
			c.KeepAlive = true
			continue
		case field.EqualFold(v, "close"):
			c.Close = true
			continue
		}
		for len(v) > 0 {
			var t []byte
			t, v = nextOption(v)
			switch {
			case len(t) == 0 || field.IsProtected(t):
			case field.EqualFold(t, "close"):
				c.Close = true
			case field.EqualFold(t, "keep-alive"):
				c.KeepAlive = true
			case field.EqualFold(t, "upgrade"):
				c.Upgrade = true
			default:
				names = append(names, t)
			}
		}
	}
	h.dropNamed(names)
	return c
}

// dropNamed marks the fields with one of the names.
func (h *Head) dropNamed(names [][]byte) {
	if len(names) <= fewNames {
		for _, name := range names {
			for i := range h.Fields {
				if f := &h.Fields[i]; equalFold(h.name(f), name) {
					f.drop = true
				}
			}
		}
		return
	}
	set := make(map[string]struct{}, len(names))
	for _, name := range names {
		set[string(lower(name))] = struct{}{}
	}
	for i := range h.Fields {
		f := &h.Fields[i]
		if _, named := set[string(lower(h.name(f)))]; named {
			f.drop = true
		}
	}
}

// nextOption takes the first element of a comma-separated list, which may be
// empty, and returns the rest.
func nextOption(v []byte) (option, rest []byte) {
	if i := bytes.IndexByte(v, ','); i >= 0 {
		v, rest = v[:i], v[i+1:]
	}
	return bytes.Trim(v, " \t"), rest
}

// equalFold is bytes.EqualFold for ASCII: that one takes the Kelvin sign for a
// k and the long s for an s.
func equalFold(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		if c != b[i] && (c|0x20 != b[i]|0x20 || c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

func lower(b []byte) []byte {
	l := make([]byte, len(b))
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		l[i] = c
	}
	return l
}
