package wire

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// Connection holds the known options of the Connection fields.
type Connection struct {
	Close, KeepAlive, Upgrade bool
}

// maxOptions is the maximum number of options in the Connection fields of a head, and of
// elements in other parsed lists.
const maxOptions = 64

// readConnection parses the Connection fields (RFC 9110 section 7.6.1). If an option is
// the name of a field, readConnection marks that field as dropped. Fields for which
// field.IsProtected returns true are kept. The result ok is false if there are more than
// maxOptions options.
func (h *Head) readConnection() (c Connection, ok bool) {
	var few [maxOptions][]byte
	names := few[:0]
	n := 0
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.kind != field.Connection {
			continue
		}
		v := h.value(f)
		switch {
		case field.EqualFold(v, "keep-alive"):
			c.KeepAlive = true
			n++
			continue
		case field.EqualFold(v, "close"):
			c.Close = true
			n++
			continue
		}
		if n += countElements(v); n > maxOptions {
			return c, false
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
	if len(names) > 0 {
		h.dropNamed(names)
	}
	return c, n <= maxOptions
}

// countElements counts the elements of a comma-separated list, including empty ones.
func countElements(v []byte) int { return 1 + bytes.Count(v, []byte{','}) }

// dropNamed marks all fields with one of these names as dropped. It hashes each field
// name once, so that many or similar names do not increase the cost.
func (h *Head) dropNamed(names [][]byte) {
	var hashes [maxOptions]uint64
	var lengths uint64 // bit n is set if the length of one of the names is n modulo 64
	for i, name := range names {
		hashes[i] = hashFold(name)
		lengths |= 1 << (len(name) & 63)
	}
	for i := range h.Fields {
		f := &h.Fields[i]
		name := h.name(f)
		if lengths>>(len(name)&63)&1 == 0 {
			continue
		}
		hash := hashFold(name)
		for k := range names {
			if hashes[k] == hash && equalFold(names[k], name) {
				f.out = max(f.out, dropped)
				break
			}
		}
	}
}

// hashSeed is random so that clients cannot cause collisions.
var hashSeed = rand.Uint64()

// hashFold hashes a name case-insensitively (ASCII), eight bytes at a time.
func hashFold(name []byte) uint64 {
	h := hashSeed ^ uint64(len(name))
	for ; len(name) >= 8; name = name[8:] {
		h = mix(h, binary.LittleEndian.Uint64(name))
	}
	var rest uint64
	for _, c := range name {
		rest = rest<<8 | uint64(c)
	}
	return mix(h, rest)
}

func mix(h, eight uint64) uint64 {
	h = (h ^ lowerEight(eight)) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// lowerEight converts A to Z to lower case in eight bytes.
func lowerEight(x uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	low := x &^ highs
	upper := (low + (0x80-'A')*ones) &^ (low + (0x7f-'Z')*ones) &^ x & highs // 0x80 in each byte that is A to Z
	return x | upper>>2
}

// nextOption returns the first element of a comma-separated list, which may be empty, and
// the rest of the list.
func nextOption(v []byte) (option, rest []byte) {
	if i := bytes.IndexByte(v, ','); i >= 0 {
		v, rest = v[:i], v[i+1:]
	}
	return bytes.Trim(v, " \t"), rest
}

// equalFold compares names, ignoring the case of ASCII letters. bytes.EqualFold would
// also equate the Kelvin sign with k and the long s with s.
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
