package load

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/queuegate/queuegate/bench/internal/wire"
)

// Frame types and flags of HTTP/2 (RFC 9113 section 6).
const (
	frameData, frameHeaders, frameReset, frameSettings   = 0, 1, 3, 4
	framePing, frameGoAway, frameWindow, frameContinuing = 6, 7, 8, 9

	flagAck, flagEndStream, flagEndHeaders = 1, 1, 4

	frameHead       = 9
	maxFramePayload = 16 << 10
	firstWindow     = 65535
	ourWindow       = 1<<31 - 1
	topUpWindow     = 256 << 20
)

var errH2 = errors.New("malformed HTTP/2 frame")

// h2 speaks HTTP/2 by prior knowledge. Requests are constant, so their head is
// encoded once; of answers only the status is decoded, which needs no table
// (RFC 7541 section 6): the peer learns that there is none.
type h2 struct {
	worker *worker
	head   []byte // a block of fields
	stays  bool   // streams stay open for messages
}

// An h2conn is what a connection needs to know for HTTP/2.
type h2conn struct {
	open          map[uint32]*h2stream
	idle          []uint32 // streams that stay open and carry no message
	next          uint32
	window        int64 // bytes of bodies that may be sent
	initialWindow int64
	received      int64 // bytes of bodies since the last update of our window
}

type h2stream struct {
	due    int64
	busy   bool
	status int
	window int64
	toSend int64
	echoed int64
}

func newH2(w *worker) *h2 {
	h := &h2{worker: w, stays: w.spec.Kind == H2CStream}
	method := byte(0x82) // the static table's :method GET
	if w.spec.Body > 0 || h.stays {
		method = 0x83 // POST
	}
	field := func(p []byte, text string) []byte { return append(append(p, byte(len(text))), text...) } // no Huffman coding
	contentType := "application/octet-stream"
	if w.spec.GRPC {
		contentType = "application/grpc"
	}
	h.head = append(h.head, method, 0x86)                                    // :scheme http
	h.head = field(append(h.head, 0x04), w.spec.Path)                        // :path, not indexed
	h.head = field(append(h.head, 0x01), host)                               // :authority, not indexed
	h.head = field(field(append(h.head, 0x00), "content-type"), contentType) // a new name, not indexed
	if w.spec.GRPC {
		h.head = field(field(append(h.head, 0x00), "te"), "trailers")
	}
	return h
}

func (h *h2) open(c *conn) bool {
	c.stream = &h2conn{open: map[uint32]*h2stream{}, next: 1, window: firstWindow, initialWindow: firstWindow}
	c.out.Bytes = append(c.out.Bytes, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"...)
	c.out.Bytes = appendFrame(c.out.Bytes, frameSettings, 0, 0, []byte{
		0, 1, 0, 0, 0, 0, // no table of fields
		0, 2, 0, 0, 0, 0, // no push
		0, 4, 0x7f, 0xff, 0xff, 0xff, // window of each stream
	})
	c.out.Bytes = appendFrame(c.out.Bytes, frameWindow, 0, 0, binary.BigEndian.AppendUint32(nil, ourWindow-firstWindow))
	if h.stays {
		for range h.worker.spec.Streams {
			c.stream.idle = append(c.stream.idle, h.begin(c, false))
		}
	}
	return true
}

// begin opens a stream.
func (h *h2) begin(c *conn, end bool) uint32 {
	id := c.stream.next
	c.stream.next += 2
	flags := byte(flagEndHeaders)
	if end {
		flags |= flagEndStream
	}
	c.out.Bytes = appendFrame(c.out.Bytes, frameHeaders, flags, id, h.head)
	c.stream.open[id] = &h2stream{window: c.stream.initialWindow}
	return id
}

func (h *h2) send(c *conn, due int64) {
	size := h.worker.spec.Body
	var id uint32
	if h.stays {
		last := len(c.stream.idle) - 1
		id = c.stream.idle[last]
		c.stream.idle = c.stream.idle[:last]
	} else {
		id = h.begin(c, size == 0)
	}
	s := c.stream.open[id]
	s.due, s.busy, s.toSend, s.echoed = due, true, size, 0
	h.pump(c, id, s)
}

// pump sends of a body what the windows allow.
func (h *h2) pump(c *conn, id uint32, s *h2stream) {
	for s.toSend > 0 {
		n := min(s.toSend, s.window, c.stream.window, maxFramePayload)
		if n <= 0 {
			return
		}
		s.toSend -= n
		s.window -= n
		c.stream.window -= n
		var flags byte
		if s.toSend == 0 && !h.stays {
			flags = flagEndStream
		}
		c.out.Bytes = appendFrame(c.out.Bytes, frameData, flags, id, wire.Filler[:n])
	}
}

func (h *h2) receive(c *conn, p []byte) (used int, err error) {
	for {
		frame := p[used:]
		if len(frame) < frameHead {
			return used, nil
		}
		size := int(frame[0])<<16 | int(frame[1])<<8 | int(frame[2])
		if size > maxFramePayload {
			return used, errH2
		}
		if len(frame) < frameHead+size {
			return used, nil
		}
		id := binary.BigEndian.Uint32(frame[5:]) &^ (1 << 31)
		if err := h.frame(c, frame[3], frame[4], id, frame[frameHead:frameHead+size]); err != nil {
			return used, err
		}
		used += frameHead + size
	}
}

func (h *h2) frame(c *conn, kind, flags byte, id uint32, payload []byte) error {
	hc := c.stream
	s := hc.open[id]
	switch kind {
	case frameData:
		hc.received += int64(len(payload))
		if hc.received >= topUpWindow {
			c.out.Bytes = appendFrame(c.out.Bytes, frameWindow, 0, 0, binary.BigEndian.AppendUint32(nil, uint32(hc.received)))
			hc.received = 0
		}
		if s == nil {
			return nil
		}
		if h.stays {
			// The window of a stream that stays open is given back at once;
			// one update for a message is small beside the message's frame.
			if len(payload) > 0 {
				c.out.Bytes = appendFrame(c.out.Bytes, frameWindow, 0, id, binary.BigEndian.AppendUint32(nil, uint32(len(payload))))
			}
			s.echoed += int64(len(payload))
			if s.busy && s.echoed >= h.worker.spec.Body {
				s.busy = false
				hc.idle = append(hc.idle, id)
				h.worker.finished(c, s.due, outcome{status: 200})
			}
		}
	case frameHeaders:
		if s != nil && s.status == 0 {
			if status := statusOf(payload, flags); status >= 200 || status == 0 {
				s.status = max(status, 1)
			}
		}
	case frameReset:
		if s == nil || len(payload) < 4 {
			return nil
		}
		return h.ended(c, id, s, fmt.Errorf("stream reset with error code %d", binary.BigEndian.Uint32(payload)))
	case frameSettings:
		return h.settings(c, flags, payload)
	case framePing:
		if flags&flagAck == 0 {
			c.out.Bytes = appendFrame(c.out.Bytes, framePing, flagAck, 0, payload)
		}
	case frameGoAway:
		return errors.New("connection ended by GOAWAY")
	case frameWindow:
		if len(payload) < 4 {
			return errH2
		}
		n := int64(binary.BigEndian.Uint32(payload) &^ (1 << 31))
		if id == 0 {
			hc.window += n
			for id, s := range hc.open {
				h.pump(c, id, s)
			}
		} else if s != nil {
			s.window += n
			h.pump(c, id, s)
		}
	}
	if (kind == frameData || kind == frameHeaders) && flags&flagEndStream != 0 && s != nil {
		return h.ended(c, id, s, nil)
	}
	return nil
}

// ended takes note of a stream's end. One that should have stayed open breaks
// the connection.
func (h *h2) ended(c *conn, id uint32, s *h2stream, failure error) error {
	if h.stays {
		if failure == nil {
			failure = fmt.Errorf("stream ended with status %d", s.status)
		}
		return failure
	}
	delete(c.stream.open, id)
	h.worker.finished(c, s.due, outcome{status: s.status, failure: failure})
	return nil
}

func (h *h2) settings(c *conn, flags byte, payload []byte) error {
	if flags&flagAck != 0 {
		return nil
	}
	for ; len(payload) >= 6; payload = payload[6:] {
		if binary.BigEndian.Uint16(payload) != 4 { // SETTINGS_INITIAL_WINDOW_SIZE
			continue
		}
		window := int64(binary.BigEndian.Uint32(payload[2:]))
		for id, s := range c.stream.open {
			s.window += window - c.stream.initialWindow
			h.pump(c, id, s)
		}
		c.stream.initialWindow = window
	}
	c.out.Bytes = appendFrame(c.out.Bytes, frameSettings, flagAck, 0, nil)
	return nil
}

func (h *h2) lost(c *conn, why error) (again bool) {
	if c.stream == nil {
		return false
	}
	for id, s := range c.stream.open {
		if s.busy {
			h.worker.finished(c, s.due, outcome{failure: why, held: true})
		}
		delete(c.stream.open, id)
	}
	return false
}

// statusOf decodes the first field of an answer's block, which is :status
// (RFC 9113 section 8.3); 0 if it is written in a way that is not known here.
func statusOf(block []byte, flags byte) int {
	const padded, priority = 8, 0x20
	if flags&padded != 0 && len(block) > 0 {
		block = block[1:]
	}
	if flags&priority != 0 && len(block) >= 5 {
		block = block[5:]
	}
	for len(block) > 0 && block[0]&0xe0 == 0x20 { // a change of the table's size
		block = block[1:]
	}
	if len(block) == 0 {
		return 0
	}
	indexed := [...]int{200, 204, 206, 304, 400, 404, 500}
	if i := int(block[0]) - 0x88; i >= 0 && i < len(indexed) {
		return indexed[i]
	}
	name := block[0] & 0x0f
	if block[0]&0xc0 == 0x40 {
		name = block[0] & 0x3f
	}
	if name < 8 || name > 14 || len(block) < 5 || block[1] != 3 {
		return 0
	}
	status := 0
	for _, d := range block[2:5] {
		if d < '0' || d > '9' {
			return 0
		}
		status = status*10 + int(d-'0')
	}
	return status
}

func appendFrame(p []byte, kind, flags byte, id uint32, payload []byte) []byte {
	n := len(payload)
	p = append(p, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	p = binary.BigEndian.AppendUint32(p, id)
	return append(p, payload...)
}
