package h2

import "encoding/binary"

// Reader splits received bytes into frames (RFC 9113 sections 4 and 6). It checks each
// frame, and that only CONTINUATION frames follow an incomplete field block. The input
// begins after the Preface text of a client. The first frame must be SETTINGS. The
// payload of a frame may have at most 16 KiB. The zero value is ready to use.
type Reader struct {
	MaxBlock int // maximum field block size; 0 = DefaultMaxBlock

	settingsSeen bool // the first frame has been received

	// If inBlock is set, current is a HEADERS frame whose field block is incomplete.
	// Otherwise it is a DATA frame.
	current       partialFrame
	dataLeft      uint32 // octets of data in the DATA frame that have not been delivered
	pad           uint32 // octets of padding after the data
	skip          uint32 // octets of payload to skip
	inBlock       bool   // only CONTINUATION of current.stream is allowed
	continuations uint16
	block         []byte // fragments of the field block
}

var (
	errFrameTooLong        = connectionError(FrameSizeError, FaultFrameSize, "frame larger than SETTINGS_MAX_FRAME_SIZE")
	errFrameLength         = connectionError(FrameSizeError, FaultFrameSize, "invalid length for the frame type")
	errPriorityLen         = streamError(FrameSizeError, FaultFrameSize, "PRIORITY with a wrong length")
	errPadding             = connectionError(ProtocolError, FaultProtocol, "padding longer than the payload")
	errStreamZero          = connectionError(ProtocolError, FaultProtocol, "frame type requires a stream, but the stream is 0")
	errStreamNotZero       = connectionError(ProtocolError, FaultProtocol, "frame type requires stream 0")
	errNotSettings         = connectionError(ProtocolError, FaultProtocol, "first frame is not SETTINGS")
	errPush                = connectionError(ProtocolError, FaultProtocol, "PUSH_PROMISE although push is disabled")
	errInBlock             = connectionError(ProtocolError, FaultProtocol, "frame inside a field block")
	errNoBlock             = connectionError(ProtocolError, FaultProtocol, "CONTINUATION outside a field block")
	errBlockTooLong        = connectionError(EnhanceYourCalm, FaultHeaderBlock, "field block too long")
	errBlockInBits         = connectionError(EnhanceYourCalm, FaultHeaderBlock, "field block in too many CONTINUATION frames")
	errSelfDependent       = streamError(ProtocolError, FaultProtocol, "stream depends on itself")
	errNoIncrement         = connectionError(ProtocolError, FaultProtocol, "WINDOW_UPDATE of 0 for the connection")
	errNoIncrementOnStream = streamError(ProtocolError, FaultProtocol, "WINDOW_UPDATE of 0 for a stream")
)

// Next reads a frame from the start of b into f. used is the number of bytes consumed. If
// ok is false, call Next again with the rest of b and more bytes. After an error the
// connection must be closed.
func (r *Reader) Next(b []byte, f *Frame) (used int, ok bool, err *Error) {
	if r.block != nil && !r.inBlock {
		r.block = nil // release the field block that the previous call returned
	}
	for {
		var n int
		switch rest := b[used:]; {
		case r.skip > 0 && len(rest) > 0:
			n = min(int(r.skip), len(rest))
			r.skip -= uint32(n)
		case r.dataLeft > 0 && len(rest) > 0:
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

// InBlock reports whether a field block has begun but is incomplete.
func (r *Reader) InBlock() bool { return r.inBlock }

// Buffered returns the size in bytes of the buffer for a field block.
func (r *Reader) Buffered() int { return cap(r.block) }

// frame reads a frame, or the first piece of a DATA frame. n is 0 if b is too short. ok
// is false if the field block is incomplete.
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

// checkHeader checks the frame header, before the payload has been received.
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
	case rule.allowedOn == onStream && f.Stream == 0:
		return errStreamZero
	case rule.allowedOn == onConnection && f.Stream != 0:
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

// frameRules defines for each frame type whether it is sent on a stream or on the
// connection, and the limits of its payload length. The length of PRIORITY is checked
// later, because a wrong length there is a stream error, not a connection error.
var frameRules = [types]struct {
	allowedOn   allowedOn
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

type allowedOn uint8

const (
	anywhere allowedOn = iota
	onStream
	onConnection
)

// partialFrame holds the fields of an incomplete frame.
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

// openData reads the header of a DATA frame and its first piece, which is empty only if
// the frame has no data.
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
	r.current, r.dataLeft = partialOf(f), data
	r.pad = f.Length - data - (uint32(n) - FrameHeaderLen)
	return n + r.piece(b[n:], f), true, nil
}

// piece sets f to the received part of the current DATA frame.
func (r *Reader) piece(b []byte, f *Frame) int {
	n := min(int(r.dataLeft), len(b))
	r.current.restore(f)
	f.Payload = b[:n]
	r.current.first, r.current.padding = false, 0
	if r.dataLeft -= uint32(n); r.dataLeft == 0 {
		f.EndStream = f.Flags&FlagEndStream != 0
		r.skip = r.pad
	}
	return n
}

// headers parses HEADERS (RFC 9113 section 6.2). It returns false if CONTINUATION must
// follow.
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

// continuation appends a fragment to the field block (RFC 9113 section 6.10). After the
// last fragment, f becomes the HEADERS frame with the whole block.
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

// dependsOn returns the stream dependency in priority fields (RFC 7540 section 6.3).
func dependsOn(p []byte) uint32 { return binary.BigEndian.Uint32(p) &^ (1 << 31) }
