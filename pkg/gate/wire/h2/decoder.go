package h2

// Decoder is the HPACK decoder of one direction of a connection (RFC 7541).
// The zero value has a table of the size that SETTINGS_HEADER_TABLE_SIZE
// starts at, and the default limits.
type Decoder struct {
	MaxList   int // octets of a list (RFC 9113 section 6.5.2); 0 = DefaultMaxList
	MaxFields int // 0 = DefaultMaxFields

	table   table
	limit   int  // of the table's size: our setting, once acknowledged
	started bool // table and limit are set
	owed    bool // the peer has to shrink its table first (RFC 9113 section 4.3.1)
}

// Beyond MaxList fields are not stored, but the table is kept in step so that
// the connection can go on: up to this many times MaxList.
const listsToSkip = 4

var (
	errIndex      = hpackError("index beyond the tables")
	errInteger    = hpackError("integer too large")
	errTruncated  = hpackError("field block ends within a field")
	errHuffman    = hpackError("string is not Huffman code")
	errSizeUpdate = hpackError("table size update out of range or out of place")
	errSizeOwed   = hpackError("table size update is missing")
	errListBomb   = connectionError(EnhanceYourCalm, FaultHeaderBlock, "list of fields far beyond its limit")
)

func hpackError(reason string) *Error {
	return connectionError(CompressionError, FaultCompression, reason)
}

func (d *Decoder) start() {
	d.started = true
	d.limit, d.table.max = DefaultTableSize, DefaultTableSize
}

// SetTableSize says that the peer has acknowledged SETTINGS_HEADER_TABLE_SIZE
// of n, at most DefaultTableSize.
func (d *Decoder) SetTableSize(n int) {
	if !d.started {
		d.start()
	}
	d.limit = min(n, DefaultTableSize)
	d.owed = d.table.max > d.limit
}

// Held is the memory that the table takes.
func (d *Decoder) Held() int { return d.table.held() }

// Decode reads a whole field block into h. Any error ends the connection, as
// the tables are no longer in step.
//
// What a block costs is bounded, however well it is compressed: the text takes
// no more memory than MaxList and two tables, and the time is that of
// listsToSkip lists of MaxList.
func (d *Decoder) Decode(block []byte, h *Head) *Error {
	h.Reset()
	if !d.started {
		d.start()
	}
	l := limits{list: orDefault(d.MaxList, DefaultMaxList), fields: orDefault(d.MaxFields, DefaultMaxFields)}
	if d.owed && len(block) > 0 && block[0]>>5 != 1 {
		return errSizeOwed
	}
	updates := true // are allowed
	for len(block) > 0 {
		var err *Error
		switch c := block[0]; {
		case c >= 0x80:
			block, err = d.indexed(block, h, &l)
		case c>>5 == 1:
			if !updates {
				return errSizeUpdate
			}
			if block, err = d.sizeUpdate(block); err != nil {
				return err
			}
			continue
		default:
			block, err = d.literal(block, h, &l)
		}
		if err != nil {
			return err
		}
		updates = false
	}
	return nil
}

// limits are those of one block.
type limits struct{ list, fields int }

// text is how long a string may be so that either the list or the table may
// have room for it.
func (l *limits) text(h *Head) int { return max(l.list-len(h.text), DefaultTableSize) }

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// account adds a field to the size of the list, and reports whether it is to
// be stored.
func (l *limits) account(h *Head, size int) (store bool, err *Error) {
	h.Size += size
	if h.Size <= l.list && len(h.Fields) < l.fields && !h.TooLarge {
		return true, nil
	}
	h.TooLarge = true
	if h.Size > listsToSkip*l.list {
		return false, errListBomb
	}
	return false, nil
}

// indexed reads a field that is in a table (RFC 7541 section 6.1).
func (d *Decoder) indexed(b []byte, h *Head, l *limits) ([]byte, *Error) {
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
		store, err := l.account(h, len(names[id])+len(value)+entryOverhead)
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
	store, err := l.account(h, e.size())
	if store {
		text, name := e.at-d.table.base, e.stored()
		h.text = append(h.text, d.table.text[text:text+name+uint32(e.valueLen)]...)
		h.add(at, int(name), e.id, e.flags)
	}
	return b, err
}

// literal reads a field of which at least the value is spelled out (RFC 7541
// section 6.2), and adds it to the table if it is to be there.
func (d *Decoder) literal(b []byte, h *Head, l *limits) ([]byte, *Error) {
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

	// The text goes where the field would have it; if it is not stored, it
	// leaves when the table has it.
	at := len(h.text)
	b, id, bad, fits, err := d.literalName(b, i, h, l)
	if err != nil {
		return nil, err
	}
	flags |= bad
	nameLen, fit := len(h.text)-at, !h.TooLarge
	b, fitsToo, err := readString(b, h, l)
	if err != nil {
		return nil, err
	}
	if fits == tooLong || fitsToo == tooLong {
		// Neither the list nor the table has room for it.
		h.text = h.text[:at]
		if index {
			d.table.shrink(0)
		}
		_, err = l.account(h, l.text(h)+entryOverhead)
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
	store, err := l.account(h, len(names[id])+len(name)+len(value)+entryOverhead)
	if store {
		h.add(at, nameLen, id, flags)
	} else {
		h.text = h.text[:at]
		h.TargetTooLong = h.TargetTooLong || fit && id == NamePath
	}
	return b, err
}

// literalName reads the name of a literal, which entry i of the tables has or, for
// 0, is spelled out. It is added to the text of h unless it has an id.
func (d *Decoder) literalName(b []byte, i uint32, h *Head, l *limits) (rest []byte, id Name, flags fieldFlags, fits decoded, err *Error) {
	switch {
	case i == 0:
		at := len(h.text)
		if b, fits, err = readString(b, h, l); err != nil {
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
	return b, id, flags, fits, nil
}

// skipLiteral passes over the strings of a field that is neither stored nor to
// be in the table.
func skipLiteral(b []byte, named bool, h *Head, l *limits) ([]byte, *Error) {
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
	_, err := l.account(h, size)
	return b, err
}

// readString adds a string literal to the text of h.
func readString(b []byte, h *Head, l *limits) ([]byte, decoded, *Error) {
	huffman, s, rest, err := cutString(b)
	if err != nil {
		return nil, 0, err
	}
	if !huffman {
		if len(s) > l.text(h) {
			return rest, tooLong, nil
		}
		h.text = append(h.text, s...)
		return rest, whole, nil
	}
	text, how := appendDecoded(h.text, s, l.text(h))
	if how == corrupt {
		return nil, 0, errHuffman
	}
	h.text = text
	return rest, how, nil
}

// sizeUpdate reads a dynamic table size update (RFC 7541 section 6.3).
func (d *Decoder) sizeUpdate(b []byte) ([]byte, *Error) {
	n := uint32(b[0] & 0x1f)
	b = b[1:]
	if n == 0x1f {
		var err *Error
		if n, b, err = readMore(n, b); err != nil {
			return nil, err
		}
	}
	if n > uint32(d.limit) {
		return nil, errSizeUpdate
	}
	d.owed = false
	d.table.resize(int(n))
	return b, nil
}
