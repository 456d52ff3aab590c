package h2

// Code is an error code of RST_STREAM and GOAWAY (RFC 9113 section 7).
type Code uint32

// The codes of RFC 9113. Unknown codes are treated as InternalError.
const (
	NoError Code = iota
	ProtocolError
	InternalError
	FlowControlError
	SettingsTimeout
	StreamClosed
	FrameSizeError
	RefusedStream
	Cancel
	CompressionError
	ConnectError
	EnhanceYourCalm
	InadequateSecurity
	HTTP11Required
)

// Scope is what an Error ends: the connection or one stream.
type Scope uint8

// The scopes (RFC 9113 section 5.4).
const (
	Connection Scope = iota
	Stream
)

// Fault classifies violations by the peer for metrics.
type Fault uint8

// The faults. FaultResets and the faults after it mean that the peer exceeds a limit
// against abuse.
const (
	FaultProtocol    Fault = iota // unexpected or unsupported frame
	FaultFrameSize                // RFC 9113 section 4.2
	FaultFlowControl              // window exceeded or above 2^31-1
	FaultSettings                 // setting out of range
	FaultCompression              // HPACK
	FaultStreamState              // frame not allowed in the state of the stream
	FaultMalformed                // message violates RFC 9113 section 8
	FaultResets                   // too many stream resets, by either side
	FaultEmptyFrames              // too many frames without content
	FaultHeaderBlock              // field block exceeds a limit
	FaultUnread                   // too many replies that the peer has not read
	FaultIdle                     // a window is 0 for too long, or a head is late
	faults
)

var faultNames = [faults]string{
	"protocol", "frame-size", "flow-control", "settings", "compression", "stream-state", "malformed",
	"resets", "empty-frames", "header-block", "unread", "idle",
}

// String returns the label value.
func (f Fault) String() string { return faultNames[f] }

// Faults returns all label values.
func Faults() []string { return faultNames[:] }

// Error is a violation by the peer. Each Error is declared once and compared by address.
// Reason is for logs and contains no bytes from the peer.
type Error struct {
	Code   Code
	Scope  Scope
	Fault  Fault
	Reason string
}

func (e *Error) Error() string { return "http2: " + e.Reason }

func connectionError(code Code, fault Fault, reason string) *Error {
	return &Error{code, Connection, fault, reason}
}

func streamError(code Code, fault Fault, reason string) *Error {
	return &Error{code, Stream, fault, reason}
}

func malformed(reason string) *Error {
	return streamError(ProtocolError, FaultMalformed, reason)
}
