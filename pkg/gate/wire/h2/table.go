package h2

type entry struct {
	at                uint32 // position of its text, counted from the first text ever added
	nameLen, valueLen uint16
	older             uint16 // the next older entry in the hash chain; see index
	id                Name
	flags             fieldFlags // badName and badValue of the field
}

func (e *entry) size() int { return int(e.nameLen) + int(e.valueLen) + entryOverhead }

// stored returns the number of bytes that the name occupies in the text of the table. It
// is 0 for an entry with an id, because nameBytes already has the name.
func (e *entry) stored() uint32 {
	if e.id != 0 {
		return 0
	}
	return uint32(e.nameLen)
}

// entryOverhead is added to the size of each table entry and of each field of a header
// list (RFC 7541 section 4.1, RFC 9113 section 6.5.2).
const entryOverhead = 32

// table is the dynamic table of one direction of a connection (RFC 7541 section 2.3.2).
// Its size is at most DefaultTableSize octets. A ring contains the entries. A slice
// contains their names and values; it is compacted when it is full.
type table struct {
	entries []entry // a ring; the length is a power of two
	next    uint32  // number of the next entry to add
	count   int

	text []byte // oldest first; may begin with text of evicted entries
	base uint32 // position of text[0]

	size      int // in octets, as defined by RFC 7541
	reduction int // DefaultTableSize minus the maximum size; 0 in a zero table
}

func (t *table) max() int { return DefaultTableSize - t.reduction }

// newest returns entry i, which must be below count; 0 is the newest.
func (t *table) newest(i int) *entry {
	return &t.entries[(t.next-1-uint32(i))&uint32(len(t.entries)-1)]
}

// name returns the name of an entry in lower case.
func (t *table) name(e *entry) []byte {
	if e.id != 0 {
		return nameBytes[e.id]
	}
	at := e.at - t.base
	return t.text[at : at+uint32(e.nameLen)]
}

func (t *table) value(e *entry) []byte {
	at := e.at - t.base + e.stored()
	return t.text[at : at+uint32(e.valueLen)]
}

// add inserts an entry, evicts old ones as necessary, and returns the entry. If the entry
// is larger than the table, add evicts all entries and returns nil. If id is not 0, the
// name must be empty. The name and the value must not point into the table.
func (t *table) add(id Name, name, value []byte, flags fieldFlags) *entry {
	nameLen := len(names[id]) + len(name)
	size := nameLen + len(value) + entryOverhead
	t.shrink(t.max() - size)
	if size > t.max() {
		return nil
	}
	if t.count == len(t.entries) {
		t.growEntries()
	}
	t.ensureSpace(len(name) + len(value))
	e := &t.entries[t.next&uint32(len(t.entries)-1)]
	*e = entry{
		at:      t.base + uint32(len(t.text)),
		nameLen: uint16(nameLen), valueLen: uint16(len(value)),
		id: id, flags: flags,
	}
	t.text = append(append(t.text, name...), value...)
	t.next++
	t.count++
	t.size += size
	return e
}

// shrink evicts the oldest entries until the size of the table is at most size octets.
func (t *table) shrink(size int) {
	for t.size > size && t.count > 0 {
		t.size -= t.newest(t.count - 1).size()
		t.count--
	}
}

func (t *table) resize(n int) {
	t.reduction = DefaultTableSize - n
	t.shrink(n)
}

func (t *table) growEntries() {
	ring := make([]entry, max(8, 2*len(t.entries)))
	for i := range t.count {
		n := t.next - 1 - uint32(i)
		ring[n&uint32(len(ring)-1)] = *t.newest(i)
	}
	t.entries = ring
}

func (t *table) ensureSpace(n int) {
	if len(t.text)+n <= cap(t.text) {
		return
	}
	live := t.text[len(t.text):]
	if t.count > 0 {
		live = t.text[t.newest(t.count-1).at-t.base:]
	}
	t.base += uint32(len(t.text) - len(live))
	text := t.text[:0]
	if need := len(live) + n; need > cap(text) {
		text = make([]byte, 0, min(max(256, 2*cap(text), (need+255)&^255), DefaultTableSize))
	}
	t.text = append(text, live...)
}
