package h2

// Type is the type of a frame (RFC 9113 section 6).
type Type uint8

// The frame types. All others are ignored (RFC 9113 section 5.5).
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

// Flags of a frame. Which of them mean something depends on its type.
type Flags uint8

// The flags.
const (
	FlagAck        Flags = 0x1 // SETTINGS, PING
	FlagEndStream  Flags = 0x1 // DATA, HEADERS
	FlagEndHeaders Flags = 0x4
	FlagPadded     Flags = 0x8
	FlagPriority   Flags = 0x20
)

// Sizes and bounds of RFC 9113.
const (
	FrameHeaderLen    = 9
	MinMaxFrameSize   = 1 << 14 // what everybody takes, and what SETTINGS_MAX_FRAME_SIZE starts at
	MaxMaxFrameSize   = 1<<24 - 1
	MaxWindow         = 1<<31 - 1
	InitialWindow     = 1<<16 - 1
	MaxStreamID       = 1<<31 - 1
	DefaultTableSize  = 4096 // SETTINGS_HEADER_TABLE_SIZE
	DefaultMaxList    = 64 << 10
	DefaultMaxBlock   = 2 * DefaultMaxList
	MaxFields         = 4096 // of a list
	settingLen        = 6
	MaxContinuations  = 256 // of one block
	priorityFieldsLen = 5
)

// Preface is what a client sends before its first frame (RFC 9113 section 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// MatchPreface reports whether b may be the beginning of a client's HTTP/2
// connection, and whether the preface is there as a whole.
func MatchPreface(b []byte) (possible, whole bool) {
	n := min(len(b), len(Preface))
	possible = string(b[:n]) == Preface[:n]
	return possible, possible && n == len(Preface)
}

// Frame is what Reader.Next read: a frame, a piece of a DATA frame, or HEADERS
// with all that belongs to its field block. Payload points into the bytes
// that were read, or into the Reader, and is valid until the next call.
type Frame struct {
	Type    Type
	Flags   Flags
	Stream  uint32
	Length  uint32 // of the payload on the wire; of HEADERS, the first frame's
	Payload []byte // without padding and priority fields; nil for unknown types

	// First and EndStream are about DATA and HEADERS. DATA is charged to both
	// windows as a whole with its first piece, with Padding octets that no
	// piece will bring. Pieces behind the first are of no interest once their
	// stream is gone.
	First     bool
	EndStream bool // with the last piece
	Padding   uint32

	Code       Code   // RST_STREAM, GOAWAY
	Increment  uint32 // WINDOW_UPDATE
	LastStream uint32 // GOAWAY

	// Err is what is wrong with this frame where it ends its stream and not
	// the connection.
	Err *Error
}

// Ack is about SETTINGS and PING.
func (f *Frame) Ack() bool { return f.Flags&FlagAck != 0 }

// CarriesNothing is true of frames that cost work and bring no message
// forward. A conversation needs some of them: see Meter.
func (f *Frame) CarriesNothing() bool {
	switch f.Type {
	case Data:
		return f.First && len(f.Payload) == 0 && !f.EndStream
	case Headers, RSTStream:
		return false
	}
	return true
}
