package simulate

import (
	"encoding/binary"

	"golang.org/x/net/http2/hpack"
)

// tap reads what the gate writes on a connection to the container at the moment
// when it does: of what has gone, not all arrives.
type tap struct {
	over2     bool
	begun     bool
	in        []byte   // a frame, or a first line, that is not complete
	skip      int      // octets that say nothing of requests
	block     []byte   // likewise
	unknownAt int64    // when the first bytes went out of which it is not known whose they are; 0 = there are none
	last      *request // over HTTP/1
	path      string
	dec       *hpack.Decoder
}

// wrote notes whose bytes have gone out.
func (r *run) wrote(l *link, b []byte) {
	if l.tap == nil {
		l.tap = &tap{}
		r.taps = append(r.taps, l.tap)
	}
	t := l.tap
	if !t.begun {
		b = append(t.in, b...)
		if t.in = b; len(b) < 3 { // POST begins like a preface
			r.hasLeft(t, "")
			return
		}
		t.begun, t.in, t.unknownAt = true, nil, 0
		if t.over2 = string(b[:3]) == h2Preface[:3]; t.over2 {
			t.skip = len(h2Preface)
			t.dec = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
				if f.Name == ":path" {
					t.path = f.Value
				}
			})
		}
	}
	if !t.over2 {
		if t.last != nil && t.last.endings == 0 {
			return // more of it
		}
		t.in = append(t.in, b[:min(len(b), 200)]...)
		r.hasLeft(t, string(t.in))
		return
	}
	for len(b) > 0 {
		if n := min(t.skip, len(b)); n > 0 {
			t.skip -= n
			b = b[n:]
			continue
		}
		need := 9
		if len(t.in) >= need {
			need += t.length()
		}
		n := min(need-len(t.in), len(b))
		t.in = append(t.in, b[:n]...)
		b = b[n:]
		if len(t.in) < need {
			break
		}
		if kind := t.in[3]; kind != fHeaders && kind != fContinuation {
			if t.skip, t.in = t.length(), t.in[:0]; len(t.block) == 0 {
				t.unknownAt = 0
			}
		} else if len(t.in) == 9+t.length() {
			r.blockLeft(t)
		}
	}
	if t.unknownAt == 0 && len(t.in)+len(t.block) > 0 {
		t.unknownAt = r.now
	}
}

func (t *tap) length() int { return int(binary.BigEndian.Uint32(t.in) >> 8) }

// blockLeft takes a whole frame of a field block.
func (r *run) blockLeft(t *tap) {
	t.block = append(t.block, t.in[9:]...)
	whole := t.in[4]&flagWhole != 0
	t.in = t.in[:0]
	if !whole {
		return
	}
	t.path = ""
	_, _ = t.dec.Write(t.block)
	_ = t.dec.Close()
	t.block = t.block[:0]
	t.unknownAt = 0
	if t.path != "" { // no trailers
		r.hasLeft(t, " "+t.path+" ")
	}
}

// hasLeft notes whose bytes have gone out, if that can be told.
func (r *run) hasLeft(t *tap, line string) {
	if t.last = r.requestOf(line); t.last == nil {
		if t.unknownAt == 0 {
			t.unknownAt = r.now
		}
		return
	}
	t.last.wentOut++
	t.in, t.unknownAt = t.in[:0], 0
}

// mayHaveLeft reports whether bytes of q may have gone out.
func (r *run) mayHaveLeft(q *request) bool {
	if q.wentOut > 0 {
		return true
	}
	for _, t := range r.taps {
		if t.unknownAt >= q.begunAt {
			return true
		}
	}
	return false
}
