package h2

import (
	"unsafe"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// Head is a decoded header list and the results of its Check methods. Its memory is
// reused. Slices returned by its methods are valid until the next Decode.
type Head struct {
	Fields []Field
	text   []byte // names that are not a known Name, and all values

	// Size is the size of the header list in octets (RFC 9113 section 6.5.2). TooLarge
	// means that the list exceeds a limit of the Decoder, so that Fields contains only
	// its first fields. TargetTooLong means that :path is the field that exceeded the
	// limit.
	Size          int
	TooLarge      bool
	TargetTooLong bool

	// CheckRequest and CheckResponse set the next fields.
	Status  int   // of a response
	Length  int64 // Content-Length; -1 = absent
	Regular int   // Fields[Regular:] contains no pseudo-fields

	pseudo [pseudos]uint8 // index in Fields, plus 1 so that 0 means absent
	host   int32          // index of Host in Fields, plus 1 so that 0 means absent
}

// Indexes of Head.pseudo.
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
	at       uint32 // position in Head.text
	nameLen  uint32 // length of the name in Head.text; 0 if Name is set
	valueLen uint32
	Name     Name
	Kind     field.Kind
	flags    fieldFlags
}

type fieldFlags uint8

const (
	sensitive fieldFlags = 1 << iota // must never be indexed (RFC 7541 section 7.1.3)
	badName
	badValue
)

// Sensitive reports whether the field must never be indexed, not even by intermediaries.
func (f *Field) Sensitive() bool { return f.flags&sensitive != 0 }

// NameOf returns the name of a field in lower case. It must not be modified.
func (h *Head) NameOf(f *Field) []byte {
	if f.Name != 0 {
		return nameBytes[f.Name]
	}
	return h.text[f.at : f.at+f.nameLen]
}

// ValueOf returns the value of a field.
func (h *Head) ValueOf(f *Field) []byte {
	return h.text[f.at+f.nameLen : f.at+f.nameLen+f.valueLen]
}

// Each calls yield for each regular field in received order.
func (h *Head) Each(yield func(name, value []byte) bool) {
	for i := h.Regular; i < len(h.Fields); i++ {
		if f := &h.Fields[i]; !yield(h.NameOf(f), h.ValueOf(f)) {
			return
		}
	}
}

// First returns the value of the first field with a known name; nil = absent.
func (h *Head) First(name Name) []byte {
	for i := range h.Fields {
		if f := &h.Fields[i]; f.Name == name {
			return h.ValueOf(f)
		}
	}
	return nil
}

// Reset empties h and keeps its memory for reuse.
func (h *Head) Reset() {
	*h = Head{Fields: h.Fields[:0], text: h.text[:0]}
}

// Cap returns the size of the memory of h in bytes.
func (h *Head) Cap() int { return cap(h.text) + fieldSize*cap(h.Fields) }

const fieldSize = int(unsafe.Sizeof(Field{}))

// CopyFrom copies the content of another Head into h. It reuses the memory of h if that
// is large enough.
func (h *Head) CopyFrom(from *Head) {
	fields, text := append(h.Fields[:0], from.Fields...), append(h.text[:0], from.text...)
	*h = *from
	h.Fields, h.text = fields, text
}

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
	f := &h.Fields[n] // faster than a composite literal, which would be built and then copied
	f.at, f.nameLen, f.valueLen = uint32(at), uint32(nameLen), uint32(len(h.text)-at-nameLen)
	f.Name, f.Kind, f.flags = id, kind, flags
}
