package h2

import (
	"unsafe"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// Head is a decoded list of fields with the memory for them, and what one of
// the Check methods has read from it. It may be used again and again; what is
// taken from it holds until the next Decode.
type Head struct {
	Fields []Field
	text   []byte // names that are in no table, and all values

	// Size is the length of the list (RFC 9113 section 6.5.2). If TooLarge,
	// that is beyond a limit of the Decoder, Fields are only the first ones;
	// TargetTooLong says that it was :path that did not fit.
	Size          int
	TooLarge      bool
	TargetTooLong bool

	// Set by CheckRequest and CheckResponse.
	Status  int   // of a response
	Length  int64 // Content-Length, or -1
	Regular int   // Fields[Regular:] are no pseudo-fields

	pseudo [pseudos]uint8 // index in Fields, plus 1
	host   int32          // the same of Host
}

// The pseudo-fields, as Head has them.
const (
	pMethod = iota
	pScheme
	pAuthority
	pPath
	pProtocol
	pStatus
	pseudos
)

// Field is one field line of a Head.
type Field struct {
	at       uint32 // of its text
	nameLen  uint32 // 0 if Name is not
	valueLen uint32
	Name     Name
	Kind     field.Kind
	flags    fieldFlags
}

type fieldFlags uint8

const (
	sensitive fieldFlags = 1 << iota // never to be in a table of anybody's (RFC 7541 section 7.1.3)
	badName
	badValue
)

// Sensitive reports whether the sender wants the field in no table of HPACK,
// here or further on.
func (f *Field) Sensitive() bool { return f.flags&sensitive != 0 }

// NameOf is the name of a field in lower case. It must not be changed.
func (h *Head) NameOf(f *Field) []byte {
	if f.Name != 0 {
		return nameBytes[f.Name]
	}
	return h.text[f.at : f.at+f.nameLen]
}

// ValueOf is the value of a field.
func (h *Head) ValueOf(f *Field) []byte {
	return h.text[f.at+f.nameLen : f.at+f.nameLen+f.valueLen]
}

// Each walks the fields as they came, without pseudo-fields.
func (h *Head) Each(yield func(name, value []byte) bool) {
	for i := h.Regular; i < len(h.Fields); i++ {
		if f := &h.Fields[i]; !yield(h.NameOf(f), h.ValueOf(f)) {
			return
		}
	}
}

// First is the value of the first field with a name of the tables, or nil.
func (h *Head) First(name Name) []byte {
	for i := range h.Fields {
		if f := &h.Fields[i]; f.Name == name {
			return h.ValueOf(f)
		}
	}
	return nil
}

// Reset empties h and keeps its memory.
func (h *Head) Reset() {
	*h = Head{Fields: h.Fields[:0], text: h.text[:0]}
}

// Cap is the memory that h has for text and fields.
func (h *Head) Cap() int { return cap(h.text) + fieldSize*cap(h.Fields) }

const fieldSize = int(unsafe.Sizeof(Field{}))

// CopyFrom makes h what from is, in memory of its own that is just enough.
func (h *Head) CopyFrom(from *Head) {
	fields, text := append(h.Fields[:0], from.Fields...), append(h.text[:0], from.text...)
	*h = *from
	h.Fields, h.text = fields, text
}

// add puts in a field of which the text has been added at position at.
func (h *Head) add(at, nameLen int, id Name, flags fieldFlags) {
	kind := nameKinds[id]
	if id == 0 && field.HasPrefixFold(h.text[at:at+nameLen], "k-gate-") {
		kind = field.Gate
	}
	n := len(h.Fields)
	if n == cap(h.Fields) {
		h.Fields = append(h.Fields, Field{})
	}
	h.Fields = h.Fields[:n+1]
	f := &h.Fields[n] // written in place: a literal is copied, and waits for its own stores
	f.at, f.nameLen, f.valueLen = uint32(at), uint32(nameLen), uint32(len(h.text)-at-nameLen)
	f.Name, f.Kind, f.flags = id, kind, flags
}
