package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/queuegate/queuegate/bench/internal/wire"
)

const (
	frameHead       = 9 // RFC 9113 section 4.1
	maxFramePayload = 16 << 10
	firstWindow     = 65535
	ourWindow       = 1<<31 - 1
	topUpWindow     = 256 << 20
)

var errH2 = errors.New("malformed HTTP/2 frame")

// h2 implements HTTP/2 with prior knowledge. All requests have the same header fields, so
// h2 encodes the field block only once. The SETTINGS frame that h2 sends disables the
// dynamic table, so the field blocks of responses do not depend on each other.
type h2 struct {
	worker *worker
	head   []byte // an encoded field block
	stays  bool   // streams stay open and carry several messages
}

// An h2conn is the HTTP/2 state of a connection.
type h2conn struct {
	framer        *http2.Framer
	in            bytes.Reader // the frame that framer reads
	fields        *hpack.Decoder
	status        int // status of the current field block
	open          map[uint32]*h2stream
	idleStreams   []uint32 // ids of open streams without a message in flight
	next          uint32
	window        int64 // send window of the connection in bytes
	initialWindow int64
	received      int64 // body bytes since the last WINDOW_UPDATE of the connection
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
	method := byte(0x82) // :method GET in the static table
	if w.spec.Body > 0 || h.stays {
		method = 0x83 // POST
	}
	field := func(p []byte, text string) []byte { return append(append(p, byte(len(text))), text...) } // a literal without Huffman coding
	contentType := "application/octet-stream"
	if w.spec.GRPC {
		contentType = "application/grpc"
	}
	h.head = append(h.head, method, 0x86)                                    // :scheme http
	h.head = field(append(h.head, 0x04), w.spec.Path)                        // :path, not indexed
	h.head = field(append(h.head, 0x01), host)                               // :authority, not indexed
	h.head = field(field(append(h.head, 0x00), "content-type"), contentType) // literal field with a new name, not indexed
	if w.spec.GRPC {
		h.head = field(field(append(h.head, 0x00), "te"), "trailers")
	}
	return h
}

// Write errors are ignored in this file, because the framer writes to memory.
func (h *h2) open(c *conn) bool {
	hc := &h2conn{open: map[uint32]*h2stream{}, next: 1, window: firstWindow, initialWindow: firstWindow}
	c.stream = hc
	hc.framer = http2.NewFramer(&c.out, &hc.in)
	hc.framer.SetMaxReadFrameSize(maxFramePayload)
	hc.framer.SetReuseFrames()
	hc.fields = hpack.NewDecoder(0, hc.field)
	c.out.Bytes = append(c.out.Bytes, http2.ClientPreface...)
	hc.framer.WriteSettings(
		http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0},
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: ourWindow})
	hc.framer.WriteWindowUpdate(0, ourWindow-firstWindow)
	if h.stays {
		for range h.worker.spec.Streams {
			hc.idleStreams = append(hc.idleStreams, h.begin(c, false))
		}
	}
	return true
}

// begin opens a stream.
func (h *h2) begin(c *conn, end bool) uint32 {
	id := c.stream.next
	c.stream.next += 2
	c.stream.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: h.head, EndHeaders: true, EndStream: end})
	c.stream.open[id] = &h2stream{window: c.stream.initialWindow}
	return id
}

func (h *h2) send(c *conn, due int64) {
	size := h.worker.spec.Body
	var id uint32
	if h.stays {
		last := len(c.stream.idleStreams) - 1
		id = c.stream.idleStreams[last]
		c.stream.idleStreams = c.stream.idleStreams[:last]
	} else {
		id = h.begin(c, size == 0)
	}
	s := c.stream.open[id]
	s.due, s.busy, s.toSend, s.echoed = due, true, size, 0
	h.pump(c, id, s)
}

// pump sends as much of a body as the send windows allow.
func (h *h2) pump(c *conn, id uint32, s *h2stream) {
	for s.toSend > 0 {
		n := min(s.toSend, s.window, c.stream.window, maxFramePayload)
		if n <= 0 {
			return
		}
		s.toSend -= n
		s.window -= n
		c.stream.window -= n
		c.stream.framer.WriteData(id, s.toSend == 0 && !h.stays, wire.Filler[:n])
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
		c.stream.in.Reset(frame[:frameHead+size])
		f, err := c.stream.framer.ReadFrame()
		if err != nil {
			return used, fmt.Errorf("%w: %w", errH2, err)
		}
		if err := h.frame(c, f); err != nil {
			return used, err
		}
		used += frameHead + size
	}
}

func (h *h2) frame(c *conn, f http2.Frame) error {
	hc, id, ends := c.stream, f.Header().StreamID, false
	s := hc.open[id]
	switch f := f.(type) {
	case *http2.DataFrame:
		hc.received += int64(f.Length)
		if hc.received >= topUpWindow {
			hc.framer.WriteWindowUpdate(0, uint32(hc.received))
			hc.received = 0
		}
		if s != nil && h.stays {
			h.echoed(c, id, s, f.Length)
		}
		ends = f.StreamEnded()
	case *http2.HeadersFrame:
		hc.fields.SetEmitEnabled(true)
		if err := hc.block(f.HeaderBlockFragment(), f.HeadersEnded()); err != nil {
			return err
		}
		if s != nil && s.status == 0 && hc.status >= 200 {
			s.status = hc.status
		}
		ends = f.StreamEnded()
	case *http2.ContinuationFrame:
		return hc.block(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.RSTStreamFrame:
		if s != nil {
			return h.handleStreamEnd(c, id, s, fmt.Errorf("stream reset with error code %d", f.ErrCode))
		}
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if window, ok := f.Value(http2.SettingInitialWindowSize); ok {
			for id, s := range hc.open {
				s.window += int64(window) - hc.initialWindow
				h.pump(c, id, s)
			}
			hc.initialWindow = int64(window)
		}
		hc.framer.WriteSettingsAck()
	case *http2.PingFrame:
		if !f.IsAck() {
			hc.framer.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		return errors.New("connection ended by GOAWAY")
	case *http2.WindowUpdateFrame:
		if id == 0 {
			hc.window += int64(f.Increment)
			for id, s := range hc.open {
				h.pump(c, id, s)
			}
		} else if s != nil {
			s.window += int64(f.Increment)
			h.pump(c, id, s)
		}
	}
	if ends && s != nil {
		return h.handleStreamEnd(c, id, s, nil)
	}
	return nil
}

// echoed processes a part of an echoed message. It returns the part's credit to the
// stream at once, because a WINDOW_UPDATE is small compared with a message.
func (h *h2) echoed(c *conn, id uint32, s *h2stream, length uint32) {
	if length > 0 {
		c.stream.framer.WriteWindowUpdate(id, length)
	}
	s.echoed += int64(length)
	if s.busy && s.echoed >= h.worker.spec.Body {
		s.busy = false
		c.stream.idleStreams = append(c.stream.idleStreams, id)
		h.worker.finishRequest(c, s.due, outcome{status: 200})
	}
}

// block decodes a fragment of a field block.
func (hc *h2conn) block(fragment []byte, last bool) error {
	hc.status = 0
	_, err := hc.fields.Write(fragment)
	if err == nil && last {
		err = hc.fields.Close()
	}
	return err
}

// field stores the status, which is the first field (RFC 9113 section 8.3), and ignores
// all other fields.
func (hc *h2conn) field(f hpack.HeaderField) {
	if f.Name == ":status" {
		hc.status, _ = strconv.Atoi(f.Value)
	}
	hc.fields.SetEmitEnabled(false)
}

// handleStreamEnd handles the end of a stream. The parameter failure is nil unless the
// peer reset the stream. In a load of kind H2CStream, the streams must stay open, so each
// end is an error.
func (h *h2) handleStreamEnd(c *conn, id uint32, s *h2stream, failure error) error {
	if h.stays {
		if failure == nil {
			failure = fmt.Errorf("stream ended with status %d", s.status)
		}
		return failure
	}
	delete(c.stream.open, id)
	h.worker.finishRequest(c, s.due, outcome{status: s.status, failure: failure})
	return nil
}

func (h *h2) lost(c *conn, cause error) (reconnect bool) {
	if c.stream == nil {
		return false
	}
	for id, s := range c.stream.open {
		if s.busy {
			h.worker.finishRequest(c, s.due, outcome{failure: cause, keepBusy: true})
		}
		delete(c.stream.open, id)
	}
	return false
}
