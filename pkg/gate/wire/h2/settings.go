package h2

import "encoding/binary"

// SettingID identifies a parameter of SETTINGS.
type SettingID uint16

// Settings (RFC 9113 section 6.5.2, RFC 8441 section 3, RFC 9218 section 2.1). Unknown
// ones are ignored.
const (
	SettingHeaderTableSize       SettingID = 0x1
	SettingEnablePush            SettingID = 0x2
	SettingMaxConcurrentStreams  SettingID = 0x3
	SettingInitialWindowSize     SettingID = 0x4
	SettingMaxFrameSize          SettingID = 0x5
	SettingMaxHeaderListSize     SettingID = 0x6
	SettingEnableConnectProtocol SettingID = 0x8
	SettingNoRFC7540Priorities   SettingID = 0x9
)

// PeerSettings are the current settings of the peer.
type PeerSettings struct {
	HeaderTableSize      uint32
	MaxConcurrentStreams uint32
	InitialWindow        uint32
	MaxFrame             uint32
	MaxHeaderList        uint32 // maximum header list size in octets that the peer accepts (RFC 9113 section 6.5.2)
	ConnectProtocol      bool   // the peer supports extended CONNECT

	seen         bool   // a SETTINGS frame has been received
	noPriorities uint32 // SETTINGS_NO_RFC7540_PRIORITIES (RFC 9218 section 2.1)
}

// DefaultSettings returns the settings before the first SETTINGS frame.
func DefaultSettings() PeerSettings {
	return PeerSettings{
		HeaderTableSize:      DefaultTableSize,
		MaxConcurrentStreams: 1<<32 - 1,
		InitialWindow:        InitialWindow,
		MaxFrame:             MinMaxFrameSize,
		MaxHeaderList:        DefaultMaxList,
	}
}

// Changes contains the effects of a received SETTINGS frame on windows and on the
// Encoder. The caller of PeerSettings.Apply must apply them.
type Changes struct {
	// Window is the change of SETTINGS_INITIAL_WINDOW_SIZE. It must be added to the
	// SendWindow of each stream. If the frame contains this setting several times, Window
	// is the change to the last value, and Peak is the change to the largest value, at
	// least 0. If Peak overflows a window, the frame is invalid.
	Window, Peak int64
	// Table means that the frame contains SETTINGS_HEADER_TABLE_SIZE, perhaps several
	// times. The Encoder must first apply the smallest of these sizes, LeastTable, and
	// then the last one (RFC 7541 section 4.2).
	Table      bool
	LeastTable uint32
}

var (
	errSettingPush     = connectionError(ProtocolError, FaultSettings, "SETTINGS_ENABLE_PUSH out of range")
	errSettingWindow   = connectionError(FlowControlError, FaultSettings, "SETTINGS_INITIAL_WINDOW_SIZE out of range")
	errSettingMaxFrame = connectionError(ProtocolError, FaultSettings, "SETTINGS_MAX_FRAME_SIZE out of range")
	errSettingConnect  = connectionError(ProtocolError, FaultSettings, "SETTINGS_ENABLE_CONNECT_PROTOCOL out of range or revoked")
	errSettingPriority = connectionError(ProtocolError, FaultSettings, "SETTINGS_NO_RFC7540_PRIORITIES out of range or changed")
	errMysteriousAck   = connectionError(ProtocolError, FaultSettings, "SETTINGS acknowledgement without SETTINGS")
)

// Apply applies the settings in the payload of a SETTINGS frame, in their order (RFC 9113
// section 6.5.3). The parameter fromServer means that the peer is a server. A server must
// not enable push.
func (s *PeerSettings) Apply(payload []byte, fromServer bool) (c Changes, err *Error) {
	before := int64(s.InitialWindow)
	first := !s.seen
	s.seen = true
	for ; len(payload) >= settingLen; payload = payload[settingLen:] {
		v := binary.BigEndian.Uint32(payload[2:])
		switch SettingID(binary.BigEndian.Uint16(payload)) {
		case SettingHeaderTableSize:
			if !c.Table || v < c.LeastTable {
				c.LeastTable = v
			}
			c.Table, s.HeaderTableSize = true, v
		case SettingEnablePush:
			if v > 1 || v == 1 && fromServer {
				return c, errSettingPush
			}
		case SettingMaxConcurrentStreams:
			s.MaxConcurrentStreams = v
		case SettingInitialWindowSize:
			if v > MaxWindow {
				return c, errSettingWindow
			}
			s.InitialWindow = v
			c.Window = int64(v) - before
			c.Peak = max(c.Peak, c.Window)
		case SettingMaxFrameSize:
			if v < MinMaxFrameSize || v > MaxMaxFrameSize {
				return c, errSettingMaxFrame
			}
			s.MaxFrame = v
		case SettingMaxHeaderListSize:
			s.MaxHeaderList = v
		case SettingEnableConnectProtocol:
			if v > 1 || v == 0 && s.ConnectProtocol {
				return c, errSettingConnect
			}
			s.ConnectProtocol = v == 1
		case SettingNoRFC7540Priorities:
			if v > 1 || !first && v != s.noPriorities {
				return c, errSettingPriority
			}
			s.noPriorities = v
		}
	}
	return c, nil
}

// SettingsAcks counts sent SETTINGS frames that the peer has not acknowledged.
type SettingsAcks struct{ pending uint8 }

// Sent counts a sent SETTINGS frame.
func (a *SettingsAcks) Sent() { a.pending++ }

// Pending returns the number of unacknowledged frames. At 0, the peer applies the gate's
// current settings.
func (a *SettingsAcks) Pending() int { return int(a.pending) }

// Acked processes an acknowledgement.
func (a *SettingsAcks) Acked() *Error {
	if a.pending == 0 {
		return errMysteriousAck
	}
	a.pending--
	return nil
}
