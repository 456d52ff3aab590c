package h2

import (
	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// lowerToken has the bytes allowed in field names in lower case (RFC 9113 section 8.2.1).
var lowerToken = func() (t [256]bool) {
	for c := range t {
		t[c] = field.IsToken(byte(c)) && (c < 'A' || c > 'Z')
	}
	return t
}()

// isLowerName reports whether b is a regular field name in lower case.
func isLowerName(b []byte) bool {
	for _, c := range b {
		if !lowerToken[c] {
			return false
		}
	}
	return len(b) > 0
}

// isValue reports whether b is a valid field value: no control byte except tab, and no
// leading or trailing white space (RFC 9113 section 8.2.1, RFC 9110 section 5.5).
func isValue(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if first, last := b[0], b[len(b)-1]; first == ' ' || first == '\t' || last == ' ' || last == '\t' {
		return false
	}
	return field.IsText(b)
}
