package gate

import (
	"bytes"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// ForwardedInput holds the fields from which the Forwarded field is generated. The lines
// of a field are in the order in which they were received.
type ForwardedInput struct {
	For   [][]byte // received X-Forwarded-For lines; the direct peer is not included
	Proto []byte   // X-Forwarded-Proto, first line
	Host  []byte   // X-Forwarded-Host, first line
}

// Limits of the generated Forwarded field. If there are more nodes, only the last ones
// are kept, because the nearest proxies added them.
const (
	maxForwardedNodes = 256     // number of nodes
	maxForwardedValue = 1 << 10 // in bytes; longer values are omitted
)

// AppendForwarded appends the value of Forwarded (RFC 7239) that corresponds to the
// X-Forwarded fields. It has one element for each of the last 256 addresses in For; the
// first element also has host and proto. It appends nothing if all fields are empty.
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

// lastNodes finds the last maxForwardedNodes addresses of a list that continues over
// several field lines. It returns the index of the line that has the first of these
// addresses, and the offset of that address in the line.
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

// appendNode appends an address as the value of "for". IPv6 addresses are put in brackets
// (RFC 7239 section 6), and anything that is not a token is quoted.
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

// quotable reports whether v is short enough for Forwarded and can be written as a
// quoted-string (RFC 9110 section 5.6.4).
func quotable(v []byte) bool {
	return len(v) <= maxForwardedValue && field.IsText(v)
}

// IsForwardingField reports whether the gate accepts the field only from trusted peers.
// Names are case-insensitive, and X_Forwarded_For counts as X-Forwarded-For.
func IsForwardingField(name []byte) bool { return field.IsTrustedOnly(name) }

// IsGateField reports whether only the gate may set the field. Names are
// case-insensitive.
func IsGateField(name []byte) bool { return field.HasPrefixFold(name, "k-gate-") }

// IsName reports whether s is a token (RFC 9110 section 5.6.2), and so a valid field
// name.
func IsName[T string | []byte](s T) bool { return field.IsName(s) }
