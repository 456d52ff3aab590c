package h2

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"golang.org/x/net/http2/hpack"
)

// Encoder is the HPACK encoder of one direction of a connection (RFC 7541). The zero
// value has a table of the default SETTINGS_HEADER_TABLE_SIZE.
//
// The fields of a block are appended between BeginHeaders and EndHeaders. All bytes must
// be sent in the order in which they were appended.
type Encoder struct {
	table table
	index *index // nil until a field may be indexed for the first time

	resized bool // the table size must be sent before the next field
	shrunk  bool // an update that empties the table must be sent before the table size

	countOnly bool // count the size of the fields instead of encoding them
	size      int  // total size of the counted fields
}

// NewCounter returns an Encoder that appends nothing. It counts the size of the header
// list.
func NewCounter() Encoder { return Encoder{countOnly: true} }

// Counted returns the size of the header list passed to a counter. Each field counts with
// the lengths of its name and value, uncompressed, plus 32 octets (RFC 9113 section
// 6.5.2).
func (e *Encoder) Counted() int { return e.size }

// index finds table entries by hash. It stores the low 16 bits of entry numbers. An
// outdated or unset number leads to an entry that fails the comparison, so it does no
// harm.
type index struct {
	pairs [64]uint16    // by hash of name and value: the newest entry; entry.older is the next
	names [32]uint16    // by hash of the name: the newest entry with such a name
	seen  [32][4]uint16 // by bits of the hash of name and value: other bits of the four latest hashes; see seenBefore
}

const (
	chainLimit  = 8  // maximum number of entries compared, because an attacker can cause hash collisions
	shortCookie = 20 // a shorter cookie in the table could be guessed
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
		// RFC 7541 section 4.2 requires updates for the smallest and the final size. The
		// x/net decoder accepts a second update only if the first one empties the table.
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

// AppendField appends a field whose name is in lower case. id is the known Name that equals
// name; 0 = name is not a known name. sensitive keeps the field out of all tables (RFC 7541
// section 7.1.3).
func (e *Encoder) AppendField(dst []byte, id Name, name, value []byte, sensitive bool) []byte {
	return e.field(dst, id, name, value, sensitive)
}

// AppendText appends a field with a name in any case.
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

// The field representations (RFC 7541 section 6) and the sizes of their prefixes in
// bits.
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

// isSecret reports whether the value must not be in a table. An attacker who shares the
// connection could probe the table for it (RFC 7541 section 7.1.3).
func isSecret(id Name, value []byte) bool {
	switch id {
	case NameAuthorization, NameProxyAuthorization:
		return true
	case NameCookie:
		return len(value) < shortCookie
	}
	return false
}

// find searches the table for an entry with this name and value. i is its index, where 0 is
// the newest entry.
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

// seenBefore reports whether the field was sent recently, and records it. Only fields
// that were sent recently are indexed, because request ids, lengths and dates would evict
// useful entries.
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

// literal appends a field with a literal value. If the name is in no table, it is literal
// too.
func (e *Encoder) literal(dst []byte, repr byte, bits uint, id Name, name, value []byte, nameHash uint64) []byte {
	if i := e.nameIndex(id, name, nameHash); i != 0 {
		dst = appendInt(dst, repr, bits, i)
	} else {
		dst = e.appendString(append(dst, repr), name)
	}
	return e.appendString(dst, value)
}

// nameIndex returns the index of a name in the tables; 0 = the name is in no table.
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

// appendUpdates appends dynamic table size updates (RFC 7541 section 4.2): the minimum
// since the last block, if necessary, and then the current size.
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
