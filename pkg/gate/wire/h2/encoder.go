package h2

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"golang.org/x/net/http2/hpack"
)

// Encoder is the HPACK encoder of one direction of a connection (RFC 7541). The zero
// value is ready to use.
//
// The fields of a block are appended between BeginHeaders and EndHeaders. Blocks must be
// sent in the order in which they were appended.
type Encoder struct {
	table table
	index *index // nil = no field has been indexed

	resized bool // send the table size before the next field
	shrunk  bool // send a table size of 0 first, which empties the table of the peer

	countOnly bool // count the size of the fields and encode nothing
	size      int  // total size of the counted fields
}

// NewCounter returns an Encoder that appends nothing and counts the size of the header
// list.
func NewCounter() Encoder { return Encoder{countOnly: true} }

// Counted returns the size of the counted header list: the lengths of all names and
// values plus 32 octets per field (RFC 9113 section 6.5.2).
func (e *Encoder) Counted() int { return e.size }

// index finds entries of the dynamic table by hash. The entries are numbered in the order
// of insertion, and index stores the low 16 bits of their numbers. A number may belong to
// an evicted entry or to another field with the same hash. This is harmless, because each
// entry found is compared with the wanted field.
type index struct {
	// pairs[i] is the number of the newest entry whose name and value have the hash i.
	// This entry begins a chain of entries with the same hash. Each of them contains the
	// number of the next older one in entry.older.
	pairs [64]uint16
	// names[i] is the number of the newest entry whose name has the hash i.
	names [32]uint16
	seen  [32][4]uint16 // hashes of recently sent fields; see seenBefore
}

const (
	chainLimit  = 8  // entries compared per look-up, if a client causes hash collisions
	shortCookie = 20 // shorter cookies could be guessed, so they are not indexed
)

// SetTableSize applies the peer's SETTINGS_HEADER_TABLE_SIZE, up to DefaultTableSize
// (RFC 7541 section 4.2).
func (e *Encoder) SetTableSize(n uint32) {
	e.resize(int(min(n, DefaultTableSize)))
}

// Apply applies the changes of a SETTINGS frame.
func (e *Encoder) Apply(c Changes, s *PeerSettings) {
	if c.Table {
		e.SetTableSize(c.LeastTable)
		e.SetTableSize(s.HeaderTableSize)
	}
}

func (e *Encoder) resize(n int) {
	if n == e.table.max() {
		return
	}
	if n > e.table.max() && e.resized {
		// The size was reduced and is now raised. RFC 7541 section 4.2 requires an update
		// to the smallest size, followed by an update to the final size. The decoder of
		// x/net rejects the second update unless the table is empty. So the first update
		// is to the size 0.
		e.table.shrink(0)
		e.shrunk = true
	}
	e.resized = true
	e.table.resize(n)
}

// AppendNamed appends a field with a known name.
func (e *Encoder) AppendNamed(dst []byte, name Name, value []byte) []byte {
	return e.field(dst, name, nameBytes[name], value, false)
}

// AppendField appends a field. Its name must be in lower case. The parameter id must be
// the Name constant for it, or 0 if the name is not known. A sensitive field is never
// indexed (RFC 7541 section 7.1.3).
func (e *Encoder) AppendField(dst []byte, id Name, name, value []byte, sensitive bool) []byte {
	return e.field(dst, id, name, value, sensitive)
}

// AppendText appends a field whose name may be in any case.
func (e *Encoder) AppendText(dst, name, value []byte) []byte {
	id := LookupName(name)
	if id != 0 {
		return e.field(dst, id, nameBytes[id], value, false)
	}
	var room [64]byte
	lower := room[:0]
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		lower = append(lower, c)
	}
	return e.field(dst, 0, lower, value, false)
}

// AppendStatus appends :status with its three digits.
func (e *Encoder) AppendStatus(dst []byte, status int) []byte {
	digits := [3]byte{'0' + byte(status/100), '0' + byte(status/10%10), '0' + byte(status%10)}
	return e.AppendNamed(dst, NameStatus, digits[:])
}

// Field representations (RFC 7541 section 6) and the sizes of their prefixes in bits.
const (
	reprIndexed, bitsIndexed         = 0x80, 7
	reprIncremental, bitsIncremental = 0x40, 6
	reprUpdate, bitsUpdate           = 0x20, 5
	reprNever, bitsLiteral           = 0x10, 4
	reprPlain                        = 0x00
)

func (e *Encoder) field(dst []byte, id Name, name, value []byte, never bool) []byte {
	if e.countOnly {
		e.size += len(name) + len(value) + entryOverhead
		return dst
	}
	if e.resized {
		dst = e.appendUpdates(dst)
	}
	never = never || isSecret(id, value)
	if !never {
		for i, n := int(id), int(id)+int(staticValues[id]); i < n; i++ {
			if string(value) == static[i].value {
				return append(dst, reprIndexed|byte(i))
			}
		}
	}
	if e.index == nil {
		e.index = new(index)
	}
	nameHash := hashName(id, name)
	if never || id == NameSetCookie {
		repr := byte(reprPlain)
		if never {
			repr = reprNever
		}
		return e.literal(dst, repr, bitsLiteral, id, name, value, nameHash)
	}
	hash := hashText(nameHash, value)
	if i, found := e.find(id, name, value, hash); found {
		return appendInt(dst, reprIndexed, bitsIndexed, 1+staticLen+i)
	}
	if !e.index.seenBefore(hash) || len(name)+len(value)+entryOverhead > e.table.max()/2 {
		return e.literal(dst, reprPlain, bitsLiteral, id, name, value, nameHash)
	}
	dst = e.literal(dst, reprIncremental, bitsIncremental, id, name, value, nameHash)
	e.insert(id, name, value, nameHash, hash)
	return dst
}

// isSecret reports whether the field must never be indexed, because an attacker on the
// same connection could probe the table for its value (RFC 7541 section 7.1.3).
func isSecret(id Name, value []byte) bool {
	switch id {
	case NameAuthorization, NameProxyAuthorization:
		return true
	case NameCookie:
		return len(value) < shortCookie
	}
	return false
}

// find searches the table for an entry with this name and value. i is its index; 0 is the
// newest entry.
func (e *Encoder) find(id Name, name, value []byte, hash uint64) (i int, found bool) {
	t := &e.table
	number := e.index.pairs[hash%uint64(len(e.index.pairs))]
	for range chainLimit {
		age := int(uint16(t.next-1) - number)
		if age < i || age >= t.count {
			break
		}
		en := t.newest(age)
		if en.id == id && bytes.Equal(t.value(en), value) && (id != 0 || bytes.Equal(t.name(en), name)) {
			return age, true
		}
		i, number = age+1, en.older
	}
	return 0, false
}

// seenBefore reports whether a field with this hash was sent recently, and records the
// hash. A field that is sent for the first time is not added to the table, because
// request ids, lengths and dates would evict useful entries.
func (x *index) seenBefore(hash uint64) bool {
	last, rest := &x.seen[hash>>8%uint64(len(x.seen))], uint16(hash>>32)|1
	for _, s := range last {
		if s == rest {
			return true
		}
	}
	copy(last[1:], last[:3])
	last[0] = rest
	return false
}

func (e *Encoder) insert(id Name, name, value []byte, nameHash, hash uint64) {
	if id != 0 {
		name = nil
	}
	number := uint16(e.table.next)
	en := e.table.add(id, name, value, 0)
	if en == nil {
		return
	}
	pair := &e.index.pairs[hash%uint64(len(e.index.pairs))]
	en.older, *pair = *pair, number
	e.index.names[nameHash%uint64(len(e.index.names))] = number
}

// literal appends a field whose value is a string literal. The name is encoded as an
// index if the static or dynamic table contains it, and as a string literal otherwise.
func (e *Encoder) literal(dst []byte, repr byte, bits uint, id Name, name, value []byte, nameHash uint64) []byte {
	if i := e.nameIndex(id, name, nameHash); i != 0 {
		dst = appendInt(dst, repr, bits, i)
	} else {
		dst = e.appendString(append(dst, repr), name)
	}
	return e.appendString(dst, value)
}

// nameIndex returns the index of a name in the tables; 0 = none.
func (e *Encoder) nameIndex(id Name, name []byte, nameHash uint64) int {
	if id != 0 && id <= staticLen {
		return int(id)
	}
	t := &e.table
	age := int(uint16(t.next-1) - e.index.names[nameHash%uint64(len(e.index.names))])
	if age >= t.count {
		return 0
	}
	if en := t.newest(age); en.id != id || id == 0 && !bytes.Equal(t.name(en), name) {
		return 0
	}
	return 1 + staticLen + age
}

// appendUpdates appends dynamic table size updates (RFC 7541 section 4.2).
func (e *Encoder) appendUpdates(dst []byte) []byte {
	if e.shrunk {
		dst = append(dst, reprUpdate)
	}
	e.resized, e.shrunk = false, false
	return appendInt(dst, reprUpdate, bitsUpdate, e.table.max())
}

// appendString appends a string literal, Huffman-encoded if that is shorter (RFC 7541
// section 5.2).
func (e *Encoder) appendString(dst, s []byte) []byte {
	text := unsafe.String(unsafe.SliceData(s), len(s))
	if n := int(hpack.HuffmanEncodeLength(text)); n < len(s) {
		return hpack.AppendHuffmanString(appendInt(dst, 0x80, 7, n), text)
	}
	return append(appendInt(dst, 0, 7, len(s)), s...)
}

func hashName(id Name, name []byte) uint64 {
	if id != 0 {
		return mix(uint64(id))
	}
	return hashText(1<<32, name)
}

// hashText hashes the length of b and its first, middle and last bytes.
func hashText(seed uint64, b []byte) uint64 {
	n := len(b)
	h := seed ^ uint64(n)<<56
	switch {
	case n >= 8:
		h = mix(h ^ binary.LittleEndian.Uint64(b))
		h = mix(h ^ binary.LittleEndian.Uint64(b[n/2-4:]))
		h ^= binary.LittleEndian.Uint64(b[n-8:])
	case n >= 4:
		h ^= uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<32
	case n > 0:
		h ^= uint64(b[0]) | uint64(b[n/2])<<8 | uint64(b[n-1])<<16
	}
	return mix(h)
}

func mix(h uint64) uint64 {
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}
