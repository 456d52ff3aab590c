package simulate

import (
	"encoding/binary"

	"golang.org/x/net/http2/hpack"
)

// tap parses the bytes that the gate writes to the container. It parses at the write,
// because some bytes never arrive.
type tap struct {
	over2     bool
	begun     bool
	pending   []byte   // an incomplete frame or request line
	skip      int      // octets to skip, which identify no request
	block     []byte   // incomplete field block
	unknownAt int64    // time of the first bytes that belong to no known request; 0 = none
	last      *request // latest HTTP/1 request
	path      string
	dec       *hpack.Decoder
}

// recordWrite records the requests to which written bytes belong.
func (r *run) recordWrite(l *link, b []byte) {
	if l.tap == nil {
		l.tap = &tap{}
		r.taps = append(r.taps, l.tap)
	}
	t := l.tap
	if !t.begun {
		b = append(t.pending, b...)
		if t.pending = b; len(b) < 3 { // three bytes distinguish PRI from PUT and POST
			r.recordSent(t, "")
			return
		}
		t.begun, t.pending, t.unknownAt = true, nil, 0
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
		r.judgeSuspended("writes to")
		if t.last != nil && t.last.endings == 0 {
			return // more bytes of the same request
		}
		t.pending = append(t.pending, b[:min(len(b), 200)]...)
		r.recordSent(t, string(t.pending))
		return
	}
	for len(b) > 0 {
		if n := min(t.skip, len(b)); n > 0 {
			t.skip -= n
			b = b[n:]
			continue
		}
		need := 9
		if len(t.pending) >= need {
			need += t.length()
		}
		n := min(need-len(t.pending), len(b))
		t.pending = append(t.pending, b[:n]...)
		b = b[n:]
		if len(t.pending) < need {
			break
		}
		if kind := t.pending[3]; kind != fHeaders && kind != fContinuation {
			if t.skip, t.pending = t.length(), t.pending[:0]; len(t.block) == 0 {
				t.unknownAt = 0
			}
		} else if len(t.pending) == 9+t.length() {
			r.recordBlock(t)
		}
	}
	if t.unknownAt == 0 && len(t.pending)+len(t.block) > 0 {
		t.unknownAt = r.now
	}
}

func (t *tap) length() int { return int(binary.BigEndian.Uint32(t.pending) >> 8) }

func (r *run) recordBlock(t *tap) {
	t.block = append(t.block, t.pending[9:]...)
	isComplete := t.pending[4]&flagWhole != 0
	t.pending = t.pending[:0]
	if !isComplete {
		return
	}
	t.path = ""
	_, _ = t.dec.Write(t.block)
	_ = t.dec.Close()
	t.block = t.block[:0]
	t.unknownAt = 0
	if t.path != "" { // otherwise the block has trailers
		r.recordSent(t, " "+t.path+" ")
	}
}

// recordSent records that bytes of a request were sent. line identifies the request if it
// is complete.
func (r *run) recordSent(t *tap, line string) {
	if t.last = r.requestOf(line); t.last == nil {
		if t.unknownAt == 0 {
			t.unknownAt = r.now
		}
		return
	}
	t.last.attemptsSent++
	t.pending, t.unknownAt = t.pending[:0], 0
}

// mayBeSent reports whether bytes of q may have been sent.
func (r *run) mayBeSent(q *request) bool {
	if q.attemptsSent > 0 {
		return true
	}
	for _, t := range r.taps {
		if t.unknownAt >= q.begunAt {
			return true
		}
	}
	return false
}
