package simulate

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/net/http2/hpack"
)

// Frame types of RFC 9113 section 6. This codec shares no code with the gate.
const (
	fData uint8 = iota
	fHeaders
	fPriority
	fReset
	fSettings
	fPush
	fPing
	fGoAway
	fWindow
	fContinuation
)

const (
	flagEnd     = 0x1 // END_STREAM of DATA and HEADERS
	flagAck     = 0x1 // ACK of SETTINGS and PING
	flagWhole   = 0x4 // END_HEADERS
	flagPadded  = 0x8
	flagDepends = 0x20 // PRIORITY of HEADERS

	h2Preface   = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	h2Window    = 1<<16 - 1
	h2Frame     = 1 << 14
	h2LastID    = 1<<31 - 1
	codeNone    = 0
	codeBad     = 1
	codeInside  = 2
	codeRefused = 7
	codeCancel  = 8
	codeCalm    = 11
)

var frameNames = [...]string{"DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION"}

// h2Role handles well-formed frames, for a client or a container.
type h2Role interface {
	head(id uint32, fields [][2]string, end bool)
	data(id uint32, p []byte, length int, end bool)
	windowUpdate(id uint32, n int)
	reset(id uint32, code uint32)
	goAway(last, code uint32)
	settings(window int) // window is the change of the gate's initial window
	acked()
}

// h2End is the peer's end of an HTTP/2 connection.
type h2End struct {
	*run
	link     *link
	role     h2Role
	received []byte

	dec    *hpack.Decoder
	fields [][2]string
	enc    *hpack.Encoder
	coded  bytes.Buffer
	block  []byte
	open   uint32 // stream with an incomplete field block; 0 = none
	ends   bool   // the block has END_STREAM

	settled  bool // the gate's SETTINGS arrived
	connects bool // the gate accepts extended CONNECT
	window   int  // initial stream window in the gate's SETTINGS
	streams  int  // limit of the gate on concurrent streams
	send     int  // send window of the connection
	recv     int  // receive window of the connection
	charged  int  // DATA octets sent, padding included
	frames   int  // DATA frames sent
	padding  int  // padding of the last DATA frame sent; 0 after HEADERS
	updates  int  // WINDOW_UPDATEs sent

	payload   []byte // payload buffer
	queue     []byte // output that is sent in pieces
	piece     int    // bytes written at once, more from a long queue; 0 = no queue
	gap       int64
	dripping  bool
	afterSend []func() // functions to call when the queue is empty
	frameEnd  int      // offset of the end of the current frame in the bytes from the gate
	pings     int      // PINGs without an acknowledgement
	ourAcks   int      // number of SETTINGS sent that the gate has not acknowledged
	deadEnd   bool
}

func (e *h2End) init(r *run, l *link, role h2Role) {
	*e = h2End{run: r, link: l, role: role, window: h2Window, streams: 100, send: h2Window, recv: h2Window}
	e.dec = hpack.NewDecoder(4096, func(f hpack.HeaderField) { e.fields = append(e.fields, [2]string{f.Name, f.Value}) })
	e.enc = hpack.NewEncoder(&e.coded)
}

// protocolError reports a protocol error of the gate.
func (e *h2End) protocolError(format string, args ...any) {
	e.found("%s: %s", e.link, fmt.Sprintf(format, args...))
	e.deadEnd = true
}

// frame appends a frame.
func frame(dst []byte, kind, flags uint8, id uint32, payload []byte) []byte {
	n := len(payload)
	dst = append(dst, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(dst, id), payload...)
}

func uint32Bytes(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// sendNumber sends a frame with a 32-bit number.
func (e *h2End) sendNumber(kind uint8, id, n uint32) {
	e.payload = binary.BigEndian.AppendUint32(e.payload[:0], n)
	e.sendFrame(kind, 0, id, e.payload)
}

func setting(dst []byte, id uint16, value int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, id), uint32(value))
}

// write sends bytes after the queue.
func (e *h2End) write(b []byte) {
	if e.piece == 0 {
		e.link.sendUp(b)
		return
	}
	e.queue = append(e.queue, b...)
	e.drip()
}

// mostQueuedPieces bounds the pieces in the queue. Otherwise thousands of WINDOW_UPDATEs
// in pieces could take longer than a run.
const mostQueuedPieces = 100

func (e *h2End) drip() {
	if e.dripping || len(e.queue) == 0 {
		return
	}
	e.dripping = true
	e.schedule(e.gap, func() {
		e.dripping = false
		n := min(len(e.queue), max(e.piece, len(e.queue)/mostQueuedPieces))
		e.link.sendUp(e.queue[:n])
		if e.queue = e.queue[n:]; len(e.queue) == 0 {
			e.queue = nil
			behind := e.afterSend
			e.afterSend = nil
			for _, f := range behind {
				f()
			}
		}
		e.drip()
	})
}

// whenSent calls f when the queue is empty.
func (e *h2End) whenSent(f func()) {
	if len(e.queue) == 0 {
		f()
	} else {
		e.afterSend = append(e.afterSend, f)
	}
}

// sendFrame sends a frame, and notes it in the trace.
func (e *h2End) sendFrame(kind, flags uint8, id uint32, payload []byte) {
	if e.tracing {
		e.note("peer   %s sends %s %d, flags %x, %d octets", e.link, frameNames[kind], id, flags, len(payload))
	}
	e.write(e.scratch.keep(frame(e.scratch.text(len(payload)), kind, flags, id, payload)))
}

func (e *h2End) encode(fields [][2]string) []byte {
	e.coded.Reset()
	for _, f := range fields {
		_ = e.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: e.rng.IntN(16) == 0})
	}
	return e.coded.Bytes()
}

// sendHead writes a field block in a random number of frames.
func (e *h2End) sendHead(id uint32, fields [][2]string, end bool, x *h2Weights) {
	block := e.encode(fields)
	e.padding = 0
	flags, kind := uint8(0), fHeaders
	if end {
		flags = flagEnd
	}
	var b []byte
	for first := true; first || len(block) > 0; first = false {
		n := len(block)
		if e.chance(x.split) {
			n = int(e.randomIn(0, int64(n)))
		}
		part := block[:n]
		block = block[n:]
		if first {
			var front, pad []byte
			if e.chance(x.padded) {
				pad = make([]byte, e.rng.IntN(20))
				front = append(front, byte(len(pad)))
				flags |= flagPadded
			}
			if e.chance(x.padded) {
				front = append(front, 0, 0, 0, 0, byte(e.rng.IntN(256)))
				flags |= flagDepends
			}
			part = append(append(front, part...), pad...)
		}
		if len(block) == 0 {
			flags |= flagWhole
		}
		b = frame(b, kind, flags, id, part)
		kind, flags = fContinuation, 0
	}
	if e.tracing {
		e.note("peer   %s sends HEADERS %d, end %v: %v", e.link, id, end, fields)
	}
	e.write(b)
}

// sendData sends as much of p as the windows allow. n is the number of octets of p sent,
// charged the octets charged to the windows.
func (e *h2End) sendData(id uint32, p []byte, window int, end bool, x *h2Weights) (n, charged int) {
	n = min(len(p), window, e.send, h2Frame)
	if n < 0 || n == 0 && len(p) > 0 {
		return 0, 0
	}
	flags, payload := uint8(0), p[:n]
	e.padding = 0
	if room := min(window, e.send, h2Frame) - n; room > 0 && e.chance(x.padded) {
		pad := e.rng.IntN(min(room, 30))
		payload = append(append([]byte{byte(pad)}, payload...), make([]byte, pad)...)
		flags |= flagPadded
		e.padding = pad
	}
	if end && n == len(p) {
		flags |= flagEnd
	}
	charged = len(payload)
	e.send -= charged
	e.charged += charged
	e.frames++
	e.sendFrame(fData, flags, id, payload)
	return n, charged
}

// extraCredit enlarges a small window after many replenishments, because more of them
// would test nothing new.
func extraCredit(gifts, window int) int {
	if gifts > mostPieces && window < h2Frame {
		return h2Frame
	}
	return 0
}

// releaseCredit returns n octets of credit to a window.
func (e *h2End) releaseCredit(id uint32, n int) { e.sendNumber(fWindow, id, uint32(n)) }

// parse parses received bytes.
func (e *h2End) parse(b []byte) {
	if len(e.received) > 0 {
		e.received = append(e.received, b...)
		b = e.received
	}
	b = e.parseFrames(b)
	e.received = append(e.received[:0], b...)
}

// parseFrames parses the frames in b, and returns the incomplete last one.
func (e *h2End) parseFrames(b []byte) []byte {
	for len(b) >= 9 && !e.deadEnd {
		n := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
		if n > h2Frame {
			e.protocolError("a frame of %d octets", n)
			return nil
		}
		if len(b) < 9+n {
			return b
		}
		kind, flags, id := b[3], b[4], binary.BigEndian.Uint32(b[5:])
		payload := b[9 : 9+n]
		e.frameEnd = e.link.delivered - len(b) + 9 + n
		if int(kind) >= len(frameNames) || id>>31 != 0 {
			e.protocolError("a frame of unknown type %d on stream %d", kind, id)
			return nil
		}
		if e.tracing {
			e.note("peer   %s receives %s %d, flags %x, %d octets", e.link, frameNames[kind], id, flags, n)
		}
		e.handleFrame(kind, flags, id, payload)
		b = b[9+n:]
	}
	return b
}

func (e *h2End) handleFrame(kind, flags uint8, id uint32, p []byte) {
	onStream := kind == fData || kind == fHeaders || kind == fReset || kind == fContinuation
	switch {
	case !e.settled && (kind != fSettings || flags&flagAck != 0):
		e.protocolError("%s before SETTINGS", frameNames[kind])
	case e.open != 0 && (kind != fContinuation || id != e.open):
		e.protocolError("%s of %d within the field block of %d", frameNames[kind], id, e.open)
	case onStream != (id != 0) && kind != fWindow:
		e.protocolError("%s on stream %d", frameNames[kind], id)
	case kind == fData:
		length := len(p)
		if flags&flagPadded != 0 {
			p = p[1 : len(p)-int(p[0])]
		}
		if e.recv -= length; e.recv < 0 && length > 0 {
			e.protocolError("DATA of %d beyond the window of the connection, by %d", id, -e.recv)
			return
		}
		e.role.data(id, p, length, flags&flagEnd != 0)
	case kind == fHeaders:
		if flags&(flagPadded|flagDepends) != 0 {
			e.protocolError("HEADERS with flags %x, which the gate does not use", flags)
			return
		}
		e.block, e.open, e.ends = append(e.block[:0], p...), id, flags&flagEnd != 0
		e.endBlock(flags)
	case kind == fContinuation:
		if e.open == 0 {
			e.protocolError("CONTINUATION of %d without HEADERS", id)
			return
		}
		e.block = append(e.block, p...)
		e.endBlock(flags)
	case kind == fReset:
		if len(p) != 4 {
			e.protocolError("RST_STREAM of %d octets", len(p))
			return
		}
		e.role.reset(id, binary.BigEndian.Uint32(p))
	case kind == fSettings:
		e.handleSettings(flags, p)
	case kind == fPing:
		e.handlePing(flags, p)
	case kind == fGoAway:
		if len(p) < 8 {
			e.protocolError("GOAWAY of %d octets", len(p))
			return
		}
		e.role.goAway(binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:]))
	case kind == fWindow:
		e.handleWindow(id, p)
	default:
		e.protocolError("%s, which the gate never sends", frameNames[kind])
	}
}

// endBlock decodes a complete field block.
func (e *h2End) endBlock(flags uint8) {
	if flags&flagWhole == 0 {
		return
	}
	id := e.open
	e.open, e.fields = 0, e.fields[:0]
	if _, err := e.dec.Write(e.block); err != nil {
		e.protocolError("field block of %d: %v", id, err)
		return
	}
	if err := e.dec.Close(); err != nil {
		e.protocolError("field block of %d: %v", id, err)
		return
	}
	regular := false
	for _, f := range e.fields {
		pseudo := f[0] != "" && f[0][0] == ':'
		if f[0] == "" || pseudo && regular || f[0] != lower(f[0]) {
			e.protocolError("field block of %d: field %q", id, f[0])
			return
		}
		regular = regular || !pseudo
		switch f[0] {
		case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
			e.protocolError("field block of %d: field %q", id, f[0])
			return
		case "te":
			if f[1] != "trailers" {
				e.protocolError("field block of %d: te: %q", id, f[1])
			}
		}
	}
	e.role.head(id, e.fields, e.ends)
}

func lower(s string) string {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			return ""
		}
	}
	return s
}

func (e *h2End) handleSettings(flags uint8, p []byte) {
	if flags&flagAck != 0 {
		if e.ourAcks--; e.ourAcks < 0 || len(p) > 0 {
			e.protocolError("an acknowledgement of SETTINGS that were not sent")
			return
		}
		e.role.acked()
		return
	}
	if len(p)%6 != 0 {
		e.protocolError("SETTINGS of %d octets", len(p))
		return
	}
	e.settled = true
	change := 0
	for ; len(p) > 0; p = p[6:] {
		v := int(binary.BigEndian.Uint32(p[2:]))
		switch binary.BigEndian.Uint16(p) {
		case 2:
			if v != 0 {
				e.protocolError("the gate does not disable server push")
			}
		case 3:
			e.streams = v
		case 4:
			if v > 1<<31-1 {
				e.protocolError("a window of %d", v)
			}
			change += v - e.window
			e.window = v
		case 8:
			e.connects = v == 1
		}
	}
	e.sendFrame(fSettings, flagAck, 0, nil)
	e.role.settings(change)
}

func (e *h2End) handlePing(flags uint8, p []byte) {
	if len(p) != 8 {
		e.protocolError("PING of %d octets", len(p))
		return
	}
	if flags&flagAck == 0 {
		e.sendFrame(fPing, flagAck, 0, p)
		return
	}
	if e.pings--; e.pings < 0 || string(p) != "how long" {
		e.protocolError("the acknowledgement of a PING that was not sent: %q", p)
	}
}

func (e *h2End) handleWindow(id uint32, p []byte) {
	if len(p) != 4 {
		e.protocolError("WINDOW_UPDATE of %d octets", len(p))
		return
	}
	n := int(binary.BigEndian.Uint32(p))
	if n == 0 || n >= 1<<31 {
		e.protocolError("WINDOW_UPDATE of %d by %d", id, n)
		return
	}
	if id == 0 {
		e.send += n
	}
	e.role.windowUpdate(id, n)
}
