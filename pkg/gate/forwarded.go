package gate

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// ForwardedInput holds the fields from which a Forwarded header is made, each
// with all its lines in the order in which they came.
type ForwardedInput struct {
	For   [][]byte // X-Forwarded-For, without this hop
	Proto []byte   // X-Forwarded-Proto, first line
	Host  []byte   // X-Forwarded-Host, first line
}

// Bounds of a Forwarded field. A longer list is an attack: no chain of proxies
// makes one. Its end is what the nearer proxies have said.
const (
	maxForwardedNodes = 256     // the last ones are used
	maxForwardedValue = 1 << 10 // what is longer is left out
)

// AppendForwarded appends the value of a Forwarded field (RFC 7239) made from
// the X-Forwarded fields: one element for each address in For, of which the
// last 256 count, the first with host and proto. Nothing is appended when there
// is nothing to say.
func AppendForwarded(dst []byte, in ForwardedInput) []byte {
	first := true
	from, skip := lastNodes(in.For)
	for _, line := range in.For[from:] {
		line, skip = line[skip:], 0
		for len(line) > 0 {
			var node []byte
			if i := bytes.IndexByte(line, ','); i >= 0 {
				node, line = line[:i], line[i+1:]
			} else {
				node, line = line, nil
			}
			node = bytes.Trim(node, " \t")
			if len(node) == 0 || !quotable(node) {
				continue
			}
			if !first {
				dst = append(dst, ", "...)
			}
			dst = appendNode(append(dst, "for="...), node)
			if first {
				dst = appendOrigin(dst, in, ';')
				first = false
			}
		}
	}
	if first {
		dst = appendOrigin(dst, in, 0)
	}
	return dst
}

// lastNodes finds where the last maxForwardedNodes elements begin: in which
// line, and where in it.
func lastNodes(lines [][]byte) (line, offset int) {
	n := 0
	for i := len(lines) - 1; i >= 0; i-- {
		for end := len(lines[i]); end >= 0; {
			comma := bytes.LastIndexByte(lines[i][:end], ',')
			if n++; n == maxForwardedNodes {
				return i, comma + 1
			}
			end = comma
		}
	}
	return 0, 0
}

func appendOrigin(dst []byte, in ForwardedInput, sep byte) []byte {
	for _, p := range [...]struct {
		name  string
		value []byte
	}{{"host=", in.Host}, {"proto=", in.Proto}} {
		v := bytes.Trim(p.value, " \t")
		if len(v) == 0 || !quotable(v) {
			continue
		}
		if sep != 0 {
			dst = append(dst, sep)
		}
		dst = appendTokenOrQuoted(append(dst, p.name...), v)
		sep = ';'
	}
	return dst
}

// appendNode writes one address: an IPv6 address gets its brackets (RFC 7239
// section 6), and whatever is not a token gets quotes.
func appendNode(dst, node []byte) []byte {
	if node[0] != '[' && bytes.Count(node, []byte{':'}) >= 2 && node[0] != '"' {
		dst = append(dst, `"[`...)
		dst = appendEscaped(dst, node)
		return append(dst, `]"`...)
	}
	return appendTokenOrQuoted(dst, node)
}

func appendTokenOrQuoted(dst, v []byte) []byte {
	if IsName(v) {
		return append(dst, v...)
	}
	dst = append(dst, '"')
	dst = appendEscaped(dst, v)
	return append(dst, '"')
}

func appendEscaped(dst, v []byte) []byte {
	for _, b := range v {
		if b == '"' || b == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, b)
	}
	return dst
}

// quotable reports whether v can stand in a quoted-string (RFC 9110 section
// 5.6.4) of a length that is not absurd.
func quotable(v []byte) bool {
	return len(v) <= maxForwardedValue && field.IsText(v)
}

// IsForwardingField reports whether only trusted peers may send the field. Names are
// case-insensitive, and X_Forwarded_For counts as X-Forwarded-For.
func IsForwardingField(name []byte) bool { return field.IsTrustedOnly(name) }

// IsGateField reports whether only the gate sets the field. Names are case-insensitive.
func IsGateField(name []byte) bool { return field.HasPrefixFold(name, "k-gate-") }

// IsName reports whether s is a token (RFC 9110 section 5.6.2), like field names.
func IsName[T string | []byte](s T) bool { return field.IsName(s) }
