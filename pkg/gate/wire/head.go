package wire

import (
	"bytes"
	"errors"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// Limits of a message head.
const (
	MaxHeadBytes = 1 << 20
	MaxFields    = 4096
)

// Reasons to reject a head.
var (
	ErrMalformed   = errors.New("malformed head")
	ErrTooLarge    = errors.New("head too large")
	ErrLongTarget  = errors.New("request target too long")
	ErrVersion     = errors.New("HTTP version not supported")
	ErrCoding      = errors.New("unknown transfer coding")
	ErrExpectation = errors.New("unknown expectation")
	ErrMethod      = errors.New("method not allowed")
)

// Field is a field line. Its offsets are relative to the start of the head.
type Field struct {
	start, nameEnd, valueStart, valueEnd, end uint32
	kind                                      field.Kind
	out                                       part    // what the forwarded head contains in place of the field
	id                                        h2.Name // of a name received over HTTP/2; 0 = not known
	sensitive                                 bool    // must never be indexed (RFC 7541 section 7.1.3)
}

// Head scans a message head: a start line, field lines and an empty line. Scan can be
// called again with a longer buffer and reads each byte once.
type Head struct {
	Raw           []byte // the whole head, once Scan has returned true
	Fields        []Field
	text          []byte // storage of a head received over HTTP/2
	startEnd      int32  // end of the start line, before its CRLF
	line          int32  // start of the current line
	scanned       int32  // no line ends before this position
	startLineRead bool
	nameRead      bool // the name of the current line and its colon have been read
}

// Each calls yield for each field in received order.
func (h *Head) Each(yield func(name, value []byte) bool) {
	for i := range h.Fields {
		if f := &h.Fields[i]; !yield(h.name(f), h.value(f)) {
			return
		}
	}
}

func (h *Head) reset() {
	if cap(h.Fields) > 256 {
		h.Fields = nil
	}
	if cap(h.text) > 16<<10 {
		h.text = nil
	}
	h.Raw, h.Fields = nil, h.Fields[:0]
	h.startEnd, h.line, h.scanned, h.startLineRead, h.nameRead = 0, 0, 0, false, false
}

// Scan parses b, which begins with the head and may have grown since the last call. It
// reports whether the head is complete. A bare CR or LF, or a folded line, is rejected as
// soon as it is seen (RFC 9112 sections 2.2 and 5.2).
func (h *Head) Scan(b []byte) (bool, error) {
	for {
		i := bytes.IndexByte(b[h.scanned:], '\n')
		if i < 0 {
			from := int(h.scanned)
			h.scanned = int32(len(b)) // no overflow: checkPartial limits the head to MaxHeadBytes
			return false, h.checkPartial(b, from)
		}
		end, line := int(h.scanned)+i+1, int(h.line)
		if end > MaxHeadBytes {
			return false, h.tooLarge()
		}
		h.scanned = int32(end)
		if end-line < 2 || b[end-2] != '\r' {
			return false, ErrMalformed
		}
		switch {
		case !h.startLineRead:
			if end == 2 || !field.IsToken(b[0]) || !field.IsText(b[:end-2]) {
				return false, ErrMalformed
			}
			h.startLineRead, h.startEnd = true, int32(end-2)
		case end-line == 2:
			h.Raw = b[:end]
			return true, nil
		case len(h.Fields) == MaxFields:
			return false, ErrTooLarge
		default:
			if err := h.addField(b, end); err != nil {
				return false, err
			}
		}
		h.line, h.nameRead = int32(end), false
	}
}

// checkPartial rejects an incomplete line that cannot become valid. The parameter from is
// the number of bytes that earlier calls have checked. checkPartial checks the last of
// these bytes again. If this byte is a CR, the earlier call has accepted it, because an
// LF could follow.
func (h *Head) checkPartial(b []byte, from int) error {
	if len(b) >= MaxHeadBytes {
		return h.tooLarge()
	}
	line := int(h.line)
	if len(b) == line {
		return nil
	}
	from = max(from-1, line)
	rest := b[from:]
	if n := len(rest); n > 0 && rest[n-1] == '\r' {
		rest = rest[:n-1]
	}
	switch {
	case !field.IsText(rest):
		return ErrMalformed
	case !h.startLineRead:
		if c := b[line]; !field.IsToken(c) && c != '\r' {
			return ErrMalformed
		}
	case !h.nameRead:
		p := from
		for p < len(b) && field.IsToken(b[p]) {
			p++
		}
		switch {
		case p == len(b), len(b) == line+1 && b[line] == '\r':
		case b[p] != ':' || p == line:
			return ErrMalformed
		default:
			h.nameRead = true
		}
	}
	return nil
}

func (h *Head) tooLarge() error {
	if !h.startLineRead {
		return ErrLongTarget
	}
	return ErrTooLarge
}

func (h *Head) addField(b []byte, end int) error {
	line := int(h.line)
	p := line
	for field.IsToken(b[p]) {
		p++
	}
	if b[p] != ':' || p == line {
		return ErrMalformed // empty name, space before the colon, or folded line
	}
	f := Field{start: uint32(line), nameEnd: uint32(p), end: uint32(end)}
	from, to := p+1, end-2
	for from < to && (b[from] == ' ' || b[from] == '\t') {
		from++
	}
	for to > from && (b[to-1] == ' ' || b[to-1] == '\t') {
		to--
	}
	if !field.IsText(b[from:to]) {
		return ErrMalformed
	}
	f.valueStart, f.valueEnd = uint32(from), uint32(to)
	f.kind = field.Of(b[line:p])
	h.Fields = append(h.Fields, f)
	return nil
}

func (h *Head) name(f *Field) []byte  { return h.Raw[f.start:f.nameEnd] }
func (h *Head) value(f *Field) []byte { return h.Raw[f.valueStart:f.valueEnd] }

// eachOption passes the non-empty elements of a comma-separated list to the function
// each, one after the other. If the function returns false for an element, eachOption
// stops and returns false. Quoted strings are not supported.
func eachOption(v []byte, each func(token []byte) bool) bool {
	for len(v) > 0 {
		var t []byte
		if t, v = nextOption(v); len(t) > 0 && !each(t) {
			return false
		}
	}
	return true
}
