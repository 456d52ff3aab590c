package h2

import "encoding/binary"

// Reader cuts what a connection reads into frames and checks all that can be
// checked of a frame alone, and of its place in a field block (RFC 9113
// sections 4 and 6). The zero value awaits the first frame after the preface,
// which must be SETTINGS, and takes frames of at most 16 KiB.
//
// It keeps no bytes but those of a field block that is not complete.
type Reader struct {
	MaxBlock int // longest field block; 0 = DefaultMaxBlock

	settingsSeen bool // the first frame has come

	// current is DATA of which left octets are to come, or if inBlock is set
	// HEADERS whose block is not complete.
	current       partialFrame
	left          uint32
	pad           uint32 // padding behind the data
	skip          uint32 // payload that is not wanted: padding, unknown types
	inBlock       bool   // only CONTINUATION of open.stream may come
	continuations uint16
	block         []byte // fragments
}

var (
	errFrameTooLong        = connectionError(FrameSizeError, FaultFrameSize, "frame beyond SETTINGS_MAX_FRAME_SIZE")
	errFrameLength         = connectionError(FrameSizeError, FaultFrameSize, "frame of a length that its type cannot have")
	errPriorityLen         = streamError(FrameSizeError, FaultFrameSize, "PRIORITY of a wrong length")
	errPadding             = connectionError(ProtocolError, FaultProtocol, "padding longer than the payload")
	errStreamZero          = connectionError(ProtocolError, FaultProtocol, "frame of a stream on the connection")
	errStreamNotZero       = connectionError(ProtocolError, FaultProtocol, "frame of the connection on a stream")
	errNotSettings         = connectionError(ProtocolError, FaultProtocol, "first frame is not SETTINGS")
	errPush                = connectionError(ProtocolError, FaultProtocol, "PUSH_PROMISE, which is not enabled")
	errInBlock             = connectionError(ProtocolError, FaultProtocol, "frame inside a field block")
	errNoBlock             = connectionError(ProtocolError, FaultProtocol, "CONTINUATION outside a field block")
	errBlockTooLong        = connectionError(EnhanceYourCalm, FaultHeaderBlock, "field block too long")
	errBlockInBits         = connectionError(EnhanceYourCalm, FaultHeaderBlock, "field block in too many CONTINUATION frames")
	errSelfDependent       = streamError(ProtocolError, FaultProtocol, "stream that depends on itself")
	errNoIncrement         = connectionError(ProtocolError, FaultProtocol, "WINDOW_UPDATE by 0 on the connection")
	errNoIncrementOnStream = streamError(ProtocolError, FaultProtocol, "WINDOW_UPDATE by 0 on a stream")
)

// Next reads from the beginning of b into f. It returns how many bytes it
// used, and whether f is there; if it is not, the rest of b has to come again
// together with more. An error ends the connection.
func (r *Reader) Next(b []byte, f *Frame) (used int, ok bool, err *Error) {
	if r.block != nil && !r.inBlock {
		r.block = nil // delivered by the call before
	}
	for {
		var n int
		switch rest := b[used:]; {
		case r.skip > 0 && len(rest) > 0:
			n = min(int(r.skip), len(rest))
			r.skip -= uint32(n)
		case r.left > 0 && len(rest) > 0:
			return used + r.piece(rest, f), true, nil
		case len(rest) < FrameHeaderLen:
			return used, false, nil
		default:
			if n, ok, err = r.frame(rest, f); ok || n == 0 || err != nil {
				return used + n, ok, err
			}
		}
		used += n
	}
}

// InBlock reports whether a field block has begun and is not complete.
func (r *Reader) InBlock() bool { return r.inBlock }

// Buffered is the memory that a field block takes while it is not complete.
func (r *Reader) Buffered() int { return cap(r.block) }

// frame reads one frame, or of DATA its first piece. n is 0 if b does not hold
// enough; ok is false if the frame is there but its field block goes on.
func (r *Reader) frame(b []byte, f *Frame) (n int, ok bool, err *Error) {
	*f = Frame{
		Type:   Type(b[3]),
		Flags:  Flags(b[4]),
		Length: binary.BigEndian.Uint32(b) >> 8,
		Stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
	}
	if err := r.checkHeader(f); err != nil {
		return 0, false, err
	}
	switch {
	case f.Type == Data:
		return r.openData(b, f)
	case f.Type >= types:
		r.skip = f.Length
		return FrameHeaderLen, true, nil
	}
	n = FrameHeaderLen + int(f.Length)
	if len(b) < n {
		return 0, false, nil
	}
	r.settingsSeen = true
	f.Payload = b[FrameHeaderLen:n]
	switch f.Type {
	case Headers:
		ok, err = r.headers(f)
	case Continuation:
		ok, err = r.continuation(f)
	default:
		ok, err = true, f.readFixed()
	}
	return n, ok, err
}

// checkHeader does what can be done before the payload has come.
func (r *Reader) checkHeader(f *Frame) *Error {
	if f.Length > MinMaxFrameSize {
		return errFrameTooLong
	}
	if !r.settingsSeen && (f.Type != Settings || f.Ack()) {
		return errNotSettings
	}
	if r.inBlock && (f.Type != Continuation || f.Stream != r.current.stream) {
		return errInBlock
	}
	if f.Type >= types {
		return nil
	}
	rule := &frameRules[f.Type]
	switch {
	case rule.place == onStream && f.Stream == 0:
		return errStreamZero
	case rule.place == onConnection && f.Stream != 0:
		return errStreamNotZero
	case f.Length < rule.least || f.Length > rule.most:
		return errFrameLength
	case f.Type == Settings && (f.Length%settingLen != 0 || f.Ack() && f.Length != 0):
		return errFrameLength
	case f.Type == PushPromise:
		return errPush
	case f.Type == Continuation && !r.inBlock:
		return errNoBlock
	}
	return nil
}

// frameRules are the places and lengths of frames by type. PRIORITY of a wrong
// length ends no connection.
var frameRules = [types]struct {
	place       place
	least, most uint32
}{
	Data:         {onStream, 0, MaxMaxFrameSize},
	Headers:      {onStream, 0, MaxMaxFrameSize},
	Priority:     {onStream, 0, MaxMaxFrameSize},
	RSTStream:    {onStream, 4, 4},
	Settings:     {onConnection, 0, MaxMaxFrameSize},
	PushPromise:  {onStream, 0, MaxMaxFrameSize},
	Ping:         {onConnection, 8, 8},
	GoAway:       {onConnection, 8, MaxMaxFrameSize},
	WindowUpdate: {anywhere, 4, 4},
	Continuation: {onStream, 0, MaxMaxFrameSize},
}

type place uint8

const (
	anywhere place = iota
	onStream
	onConnection
)

// partialFrame is what is kept of a frame of which more is to come.
type partialFrame struct {
	typ                     Type
	flags                   Flags
	first, end              bool
	stream, length, padding uint32
	err                     *Error
}

func partialOf(f *Frame) partialFrame {
	return partialFrame{typ: f.Type, flags: f.Flags, first: f.First, end: f.EndStream, stream: f.Stream, length: f.Length, padding: f.Padding, err: f.Err}
}

func (o *partialFrame) restore(f *Frame) {
	*f = Frame{Type: o.typ, Flags: o.flags, First: o.first, EndStream: o.end, Stream: o.stream, Length: o.length, Padding: o.padding, Err: o.err}
}

// openData reads the beginning of a DATA frame and its first piece, which is
// empty only if the frame has no data.
func (r *Reader) openData(b []byte, f *Frame) (n int, ok bool, err *Error) {
	n, data := FrameHeaderLen, f.Length
	if f.Flags&FlagPadded != 0 {
		if data == 0 {
			return 0, false, errFrameLength
		}
		if len(b) == n {
			return 0, false, nil
		}
		f.Padding = 1 + uint32(b[n])
		if f.Padding > data {
			return 0, false, errPadding
		}
		n++
		data -= f.Padding
	}
	if data > 0 && len(b) == n {
		return 0, false, nil
	}
	f.First = true
	r.current, r.left = partialOf(f), data
	r.pad = f.Length - data - (uint32(n) - FrameHeaderLen)
	return n + r.piece(b[n:], f), true, nil
}

// piece hands out what has come of the current DATA frame.
func (r *Reader) piece(b []byte, f *Frame) int {
	n := min(int(r.left), len(b))
	r.current.restore(f)
	f.Payload = b[:n]
	r.current.first, r.current.padding = false, 0
	if r.left -= uint32(n); r.left == 0 {
		f.EndStream = f.Flags&FlagEndStream != 0
		r.skip = r.pad
	}
	return n
}

// headers reads HEADERS (RFC 9113 section 6.2). It is false if CONTINUATION
// has to follow.
func (r *Reader) headers(f *Frame) (bool, *Error) {
	p := f.Payload
	pad := 0
	if f.Flags&FlagPadded != 0 {
		if len(p) == 0 {
			return false, errFrameLength
		}
		pad, p = int(p[0]), p[1:]
	}
	if f.Flags&FlagPriority != 0 {
		if len(p) < priorityFieldsLen {
			return false, errFrameLength
		}
		if dependsOn(p) == f.Stream {
			f.Err = errSelfDependent
		}
		p = p[priorityFieldsLen:]
	}
	if pad > len(p) {
		return false, errPadding
	}
	f.First, f.EndStream, f.Payload = true, f.Flags&FlagEndStream != 0, p[:len(p)-pad]
	if f.Flags&FlagEndHeaders != 0 {
		return true, nil
	}
	r.current, r.inBlock, r.continuations = partialOf(f), true, 0
	return false, r.collect(f.Payload)
}

// continuation adds a fragment to the block, and makes f the HEADERS that it
// belongs to if it is the last one (RFC 9113 section 6.10).
func (r *Reader) continuation(f *Frame) (bool, *Error) {
	if r.continuations++; r.continuations > MaxContinuations {
		return false, errBlockInBits
	}
	if err := r.collect(f.Payload); err != nil || f.Flags&FlagEndHeaders == 0 {
		return false, err
	}
	r.inBlock = false
	r.current.restore(f)
	f.Payload = r.block
	return true, nil
}

func (r *Reader) collect(fragment []byte) *Error {
	limit := r.MaxBlock
	if limit == 0 {
		limit = DefaultMaxBlock
	}
	if len(r.block)+len(fragment) > limit {
		return errBlockTooLong
	}
	r.block = append(r.block, fragment...)
	return nil
}

// readFixed takes the numbers out of frames that have a fixed form.
func (f *Frame) readFixed() *Error {
	p := f.Payload
	switch f.Type {
	case Priority:
		if len(p) != priorityFieldsLen {
			f.Err = errPriorityLen
		} else if dependsOn(p) == f.Stream {
			f.Err = errSelfDependent
		}
	case RSTStream:
		f.Code = Code(binary.BigEndian.Uint32(p))
	case GoAway:
		f.LastStream = binary.BigEndian.Uint32(p) &^ (1 << 31)
		f.Code = Code(binary.BigEndian.Uint32(p[4:]))
		f.Payload = p[8:]
	case WindowUpdate:
		f.Increment = binary.BigEndian.Uint32(p) &^ (1 << 31)
		if f.Increment > 0 {
			return nil
		}
		if f.Stream == 0 {
			return errNoIncrement
		}
		f.Err = errNoIncrementOnStream
	}
	return nil
}

// dependsOn is the stream that priority fields name (RFC 7540 section 6.3).
func dependsOn(p []byte) uint32 { return binary.BigEndian.Uint32(p) &^ (1 << 31) }
