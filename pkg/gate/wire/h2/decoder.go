package h2

import "cmp"

// Decoder is the HPACK decoder of one direction of a connection (RFC 7541). Its table has
// at most the default size, because the gate announces no other
// SETTINGS_HEADER_TABLE_SIZE.
type Decoder struct {
	MaxList int // maximum header list size in octets; 0 = DefaultMaxList

	table table
}

// MaxListExcess limits a header list to this multiple of MaxList. Fields above MaxList
// are not stored, but they update the table, so that the connection remains usable.
const MaxListExcess = 4

var (
	errIndex      = hpackError("index beyond the tables")
	errInteger    = hpackError("integer too large")
	errTruncated  = hpackError("field block ends inside a field")
	errHuffman    = hpackError("invalid Huffman code")
	errSizeUpdate = hpackError("table size update out of range or not at the start of a block")
	errListBomb   = connectionError(EnhanceYourCalm, FaultHeaderBlock, "header list far above the limit")
)

func hpackError(reason string) *Error {
	return connectionError(CompressionError, FaultCompression, reason)
}

// Decode decodes a whole field block into h. After an error the connection must be
// closed, because the tables of the two sides may differ.
//
// The cost of a highly compressed block is bounded. The text of h takes at most MaxList +
// 2*DefaultTableSize octets. Decoding ends with an error if the size of the list exceeds
// MaxListExcess * MaxList octets.
func (d *Decoder) Decode(block []byte, h *Head) *Error {
	h.Reset()
	l := limit(cmp.Or(d.MaxList, DefaultMaxList))
	updates := true // table size updates are allowed at this position
	for len(block) > 0 {
		var err *Error
		switch c := block[0]; {
		case c >= 0x80:
			block, err = d.indexed(block, h, l)
		case c>>5 == 1:
			if !updates {
				return errSizeUpdate
			}
			if block, err = d.sizeUpdate(block); err != nil {
				return err
			}
			continue
		default:
			block, err = d.literal(block, h, l)
		}
		if err != nil {
			return err
		}
		updates = false
	}
	return nil
}

// limit is the maximum size of a header list in octets.
type limit int

// maxText returns the maximum length of a string that may fit into the list or the table.
func (l limit) maxText(h *Head) int { return max(int(l)-len(h.text), DefaultTableSize) }

// addSize adds the size of a field to the size of the header list. It reports whether the
// field may be stored. If the list exceeds a limit, the field must not be stored, but its
// size still counts. If the list exceeds MaxListExcess * l octets, addSize returns an
// error.
func (l limit) addSize(h *Head, size int) (store bool, err *Error) {
	h.Size += size
	if h.Size <= int(l) && len(h.Fields) < MaxFields && !h.TooLarge {
		return true, nil
	}
	h.TooLarge = true
	if h.Size > MaxListExcess*int(l) {
		return false, errListBomb
	}
	return false, nil
}

// indexed decodes an indexed field (RFC 7541 section 6.1).
func (d *Decoder) indexed(b []byte, h *Head, l limit) ([]byte, *Error) {
	i := uint32(b[0] & 0x7f)
	b = b[1:]
	if i == 0x7f {
		var err *Error
		if i, b, err = readMore(i, b); err != nil {
			return nil, err
		}
	}
	at := len(h.text)
	switch {
	case i == 0:
		return nil, errIndex
	case i <= staticLen:
		id, value := staticNames[i], static[i].value
		store, err := l.addSize(h, len(names[id])+len(value)+entryOverhead)
		if store {
			h.text = append(h.text, value...)
			h.add(at, 0, id, 0)
		}
		return b, err
	}
	if i -= staticLen + 1; i >= uint32(d.table.count) {
		return nil, errIndex
	}
	e := d.table.newest(int(i))
	store, err := l.addSize(h, e.size())
	if store {
		text, name := e.at-d.table.base, e.stored()
		h.text = append(h.text, d.table.text[text:text+name+uint32(e.valueLen)]...)
		h.add(at, int(name), e.id, e.flags)
	}
	return b, err
}

// literal decodes a literal field (RFC 7541 section 6.2). It adds the field to the table
// if the representation requires that.
func (d *Decoder) literal(b []byte, h *Head, l limit) ([]byte, *Error) {
	c := b[0]
	b = b[1:]
	var flags fieldFlags
	mask := uint32(0x0f)
	index := c&0x40 != 0
	if index {
		mask = 0x3f
	} else if c&0x10 != 0 {
		flags = sensitive
	}
	i, err := uint32(c)&mask, (*Error)(nil)
	if i == mask {
		if i, b, err = readMore(i, b); err != nil {
			return nil, err
		}
	}
	if h.TooLarge && !index {
		return skipLiteral(b, i == 0, h, l)
	}

	// The name and the value are appended to h.text. The method d.table.add copies them
	// from there. If h does not store the field, they are removed from h.text later.
	at := len(h.text)
	b, id, nameFlags, nameResult, err := d.literalName(b, i, h, l)
	if err != nil {
		return nil, err
	}
	flags |= nameFlags
	nameLen, fit := len(h.text)-at, !h.TooLarge
	b, valueResult, err := readString(b, h, l)
	if err != nil {
		return nil, err
	}
	if nameResult == tooLong || valueResult == tooLong {
		// The field fits neither into the list nor into the table.
		h.text = h.text[:at]
		if index {
			d.table.shrink(0)
		}
		_, err = l.addSize(h, l.maxText(h)+entryOverhead)
		h.TargetTooLong = h.TargetTooLong || fit && id == NamePath
		return b, err
	}
	name, value := h.text[at:at+nameLen], h.text[at+nameLen:]
	if !isValue(value) {
		flags |= badValue
	}
	if index {
		d.table.add(id, name, value, flags)
	}
	store, err := l.addSize(h, len(names[id])+len(name)+len(value)+entryOverhead)
	if store {
		h.add(at, nameLen, id, flags)
	} else {
		h.text = h.text[:at]
		h.TargetTooLong = h.TargetTooLong || fit && id == NamePath
	}
	return b, err
}

// literalName decodes the name of a literal field. If i is 0, b begins with the name.
// Otherwise the name is the name of entry i of the static and dynamic tables. A name that
// is not a known Name is appended to h.text, and the result id is 0.
func (d *Decoder) literalName(b []byte, i uint32, h *Head, l limit) (rest []byte, id Name, flags fieldFlags, result decodeResult, err *Error) {
	switch {
	case i == 0:
		at := len(h.text)
		if b, result, err = readString(b, h, l); err != nil {
			return nil, 0, 0, 0, err
		}
		name := h.text[at:]
		if id = lookupLower(name); id != 0 {
			h.text = h.text[:at]
		} else if !isLowerName(name) {
			flags = badName
		}
	case i <= staticLen:
		id = staticNames[i]
	default:
		if i -= staticLen + 1; i >= uint32(d.table.count) {
			return nil, 0, 0, 0, errIndex
		}
		e := d.table.newest(int(i))
		if id = e.id; id == 0 {
			h.text = append(h.text, d.table.name(e)...)
			flags = e.flags & badName
		}
	}
	return b, id, flags, result, nil
}

// skipLiteral skips the strings of a field that is neither stored nor indexed.
func skipLiteral(b []byte, named bool, h *Head, l limit) ([]byte, *Error) {
	strings, size := 1, entryOverhead
	if named {
		strings = 2
	}
	for range strings {
		_, s, rest, err := cutString(b)
		if err != nil {
			return nil, err
		}
		size += len(s)
		b = rest
	}
	_, err := l.addSize(h, size)
	return b, err
}

// readString appends a string literal to h.text.
func readString(b []byte, h *Head, l limit) ([]byte, decodeResult, *Error) {
	huffman, s, rest, err := cutString(b)
	if err != nil {
		return nil, 0, err
	}
	if !huffman {
		if len(s) > l.maxText(h) {
			return rest, tooLong, nil
		}
		h.text = append(h.text, s...)
		return rest, decodedAll, nil
	}
	text, result := appendDecoded(h.text, s, l.maxText(h))
	if result == corrupt {
		return nil, 0, errHuffman
	}
	h.text = text
	return rest, result, nil
}

// sizeUpdate decodes a dynamic table size update (RFC 7541 section 6.3).
func (d *Decoder) sizeUpdate(b []byte) ([]byte, *Error) {
	n := uint32(b[0] & 0x1f)
	b = b[1:]
	if n == 0x1f {
		var err *Error
		if n, b, err = readMore(n, b); err != nil {
			return nil, err
		}
	}
	if n > DefaultTableSize {
		return nil, errSizeUpdate
	}
	d.table.resize(int(n))
	return b, nil
}
