package h2

// Code is an error code of RST_STREAM and GOAWAY (RFC 9113 section 7).
type Code uint32

// The codes of RFC 9113. Others are as good as InternalError.
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

// Scope is what an Error ends.
type Scope uint8

// The scopes (RFC 9113 section 5.4).
const (
	Connection Scope = iota
	Stream
)

// Fault is the kind of a peer's fault, as a metric counts it.
type Fault uint8

// The faults. Those from FaultResets on are limits against abuse.
const (
	FaultProtocol    Fault = iota // a frame that may not come here, or at all
	FaultFrameSize                // RFC 9113 section 4.2
	FaultFlowControl              // more than a window, or a window beyond 2^31-1
	FaultSettings                 // a value that a setting cannot have
	FaultCompression              // HPACK
	FaultStreamState              // a frame that the stream's state does not allow
	FaultMalformed                // a message against RFC 9113 section 8
	FaultResets                   // streams reset too often, by either side
	FaultEmptyFrames              // frames that carry nothing
	FaultHeaderBlock              // a field block beyond all limits, CONTINUATION included
	FaultUnread                   // asks, and does not read the replies
	FaultIdle                     // a window that stays at zero, a head that does not come to its end
	faults
)

var faultNames = [faults]string{
	"protocol", "frame-size", "flow-control", "settings", "compression", "stream-state", "malformed",
	"resets", "empty-frames", "header-block", "unread", "idle",
}

// String is the fault as a label value.
func (f Fault) String() string { return faultNames[f] }

// Faults are all there are, for a metric to list.
func Faults() []string { return faultNames[:] }

// Error is a fault of the peer. Errors are declared once and compared by
// address; Reason is for logs, and holds nothing that the peer sent.
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
