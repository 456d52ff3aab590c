package h2

// Type is the type of a frame (RFC 9113 section 6).
type Type uint8

// Frame types. Unknown ones are ignored (RFC 9113 section 5.5).
const (
	Data Type = iota
	Headers
	Priority
	RSTStream
	Settings
	PushPromise
	Ping
	GoAway
	WindowUpdate
	Continuation
	types
)

// Flags of a frame. Their meaning depends on the type.
type Flags uint8

// The flags.
const (
	FlagAck        Flags = 0x1 // SETTINGS, PING
	FlagEndStream  Flags = 0x1 // DATA, HEADERS
	FlagEndHeaders Flags = 0x4
	FlagPadded     Flags = 0x8
	FlagPriority   Flags = 0x20
)

// Sizes and limits of RFC 9113.
const (
	FrameHeaderLen    = 9
	MinMaxFrameSize   = 1 << 14 // minimum and default of SETTINGS_MAX_FRAME_SIZE
	MaxMaxFrameSize   = 1<<24 - 1
	MaxWindow         = 1<<31 - 1
	InitialWindow     = 1<<16 - 1
	MaxStreamID       = 1<<31 - 1
	DefaultTableSize  = 4096 // default of SETTINGS_HEADER_TABLE_SIZE
	DefaultMaxList    = 64 << 10
	DefaultMaxBlock   = 2 * DefaultMaxList
	MaxFields         = 4096 // maximum fields of a header list
	settingLen        = 6
	MaxContinuations  = 256 // maximum CONTINUATION frames of a field block
	priorityFieldsLen = 5
)

// Preface is the text that a client sends before its first frame (RFC 9113 section 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// MatchPreface reports whether b may be the beginning of the preface, and whether it
// contains the whole preface.
func MatchPreface(b []byte) (possible, complete bool) {
	n := min(len(b), len(Preface))
	possible = string(b[:n]) == Preface[:n]
	return possible, possible && n == len(Preface)
}

// Frame is a frame, a piece of a DATA frame, or HEADERS with the whole field block.
// Payload is valid until the next call of Reader.Next.
type Frame struct {
	Type    Type
	Flags   Flags
	Stream  uint32
	Length  uint32 // payload length on the wire, not including CONTINUATION frames
	Payload []byte // without padding and priority fields; nil for unknown types

	// First is set for HEADERS and in the first piece of a DATA frame. This piece must be
	// charged to both flow-control windows with the Length of the whole frame.
	First bool
	// EndStream is set for HEADERS that end the stream, and in the last piece of a DATA
	// frame that ends the stream.
	EndStream bool
	// Padding is the number of padding octets in the whole DATA frame, including the
	// octet that contains the padding length. Payload does not contain these octets.
	// Padding is set only in the first piece of the frame.
	Padding uint32

	Code       Code   // RST_STREAM, GOAWAY
	Increment  uint32 // WINDOW_UPDATE
	LastStream uint32 // GOAWAY

	// Err is an error that ends only the stream.
	Err *Error
}

// Ack reports the ACK flag of SETTINGS and PING.
func (f *Frame) Ack() bool { return f.Flags&FlagAck != 0 }

// CarriesNothing reports whether the frame causes work but transfers no content. Meter
// limits the number of such frames.
func (f *Frame) CarriesNothing() bool {
	switch f.Type {
	case Data:
		return f.First && len(f.Payload) == 0 && !f.EndStream
	case Headers, RSTStream:
		return false
	}
	return true
}
