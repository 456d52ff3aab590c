package h2

import (
	"encoding/binary"

	"github.com/queuegate/queuegate/pkg/gate"
)

// lowerToken holds the bytes of field names (RFC 9113 section 8.2.1).
var lowerToken = func() (t [256]bool) {
	for c := range t {
		t[c] = gate.IsToken(byte(c)) && (c < 'A' || c > 'Z')
	}
	return t
}()

// isLowerName reports whether b is a field name as HTTP/2 has it. The
// pseudo-fields are not.
func isLowerName(b []byte) bool {
	for _, c := range b {
		if !lowerToken[c] {
			return false
		}
	}
	return len(b) > 0
}

func isToken(b []byte) bool {
	for _, c := range b {
		if !gate.IsToken(c) {
			return false
		}
	}
	return len(b) > 0
}

// isValue reports whether b may be the value of a field: no control byte but
// tab, no white space around (RFC 9113 section 8.2.1, RFC 9110 section 5.5).
// It looks at eight bytes at a time.
func isValue(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if first, last := b[0], b[len(b)-1]; first == ' ' || first == '\t' || last == ' ' || last == '\t' {
		return false
	}
	for len(b) >= 8 {
		if hasControl(binary.LittleEndian.Uint64(b)) && !isText(b[:8]) {
			return false
		}
		b = b[8:]
	}
	return isText(b)
}

// hasControl reports whether one of eight bytes is below 0x20 or 0x7f.
func hasControl(x uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	del := x ^ 0x7f*ones
	return (x-0x20*ones)&^x&highs|(del-ones)&^del&highs != 0
}

func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
