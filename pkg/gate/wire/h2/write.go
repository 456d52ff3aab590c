package h2

import (
	"encoding/binary"
	"slices"
)

// AppendFrameHeader appends a frame header. The caller must append length octets of
// payload, at most the peer's SETTINGS_MAX_FRAME_SIZE.
func AppendFrameHeader(dst []byte, t Type, flags Flags, stream uint32, length int) []byte {
	return append(dst, byte(length>>16), byte(length>>8), byte(length), byte(t), byte(flags),
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

// AppendDataHeader appends the header of a DATA frame without padding, for length octets
// of data (RFC 9113 section 6.1).
func AppendDataHeader(dst []byte, stream uint32, length int, endStream bool) []byte {
	return AppendFrameHeader(dst, Data, endFlag(endStream), stream, length)
}

func endFlag(endStream bool) Flags {
	if endStream {
		return FlagEndStream
	}
	return 0
}

// BeginHeaders reserves space for a HEADERS frame header. Append the field block to the
// result, then call EndHeaders with the original length of dst.
func BeginHeaders(dst []byte) []byte {
	return append(dst, make([]byte, FrameHeaderLen)...)
}

// EndHeaders completes the HEADERS frame at dst[start:]. If necessary, it splits the
// field block into CONTINUATION frames (RFC 9113 sections 6.2 and 6.10). maxFrame is the
// peer's SETTINGS_MAX_FRAME_SIZE.
func EndHeaders(dst []byte, start int, stream uint32, endStream bool, maxFrame int) []byte {
	length := len(dst) - start - FrameHeaderLen
	flags := endFlag(endStream)
	if length <= maxFrame {
		AppendFrameHeader(dst[:start], Headers, flags|FlagEndHeaders, stream, length)
		return dst
	}
	AppendFrameHeader(dst[:start], Headers, flags, stream, maxFrame)
	for at := start + FrameHeaderLen + maxFrame; ; at += maxFrame {
		rest := len(dst) - at
		dst = slices.Grow(dst, FrameHeaderLen)[:len(dst)+FrameHeaderLen]
		copy(dst[at+FrameHeaderLen:], dst[at:])
		if rest <= maxFrame {
			AppendFrameHeader(dst[:at], Continuation, FlagEndHeaders, stream, rest)
			return dst
		}
		AppendFrameHeader(dst[:at], Continuation, 0, stream, maxFrame)
		at += FrameHeaderLen
	}
}

// AppendRSTStream appends RST_STREAM (RFC 9113 section 6.4).
func AppendRSTStream(dst []byte, stream uint32, code Code) []byte {
	dst = AppendFrameHeader(dst, RSTStream, 0, stream, 4)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

// Setting is one parameter of SETTINGS (RFC 9113 section 6.5.1).
type Setting struct {
	ID    SettingID
	Value uint32
}

// AppendSettings appends SETTINGS (RFC 9113 section 6.5).
func AppendSettings(dst []byte, settings ...Setting) []byte {
	dst = AppendFrameHeader(dst, Settings, 0, 0, len(settings)*settingLen)
	for _, s := range settings {
		dst = binary.BigEndian.AppendUint16(dst, uint16(s.ID))
		dst = binary.BigEndian.AppendUint32(dst, s.Value)
	}
	return dst
}

// AppendSettingsAck appends a SETTINGS acknowledgement.
func AppendSettingsAck(dst []byte) []byte {
	return AppendFrameHeader(dst, Settings, FlagAck, 0, 0)
}

// AppendPing appends a PING (RFC 9113 section 6.7). An acknowledgement must repeat the
// data of the received PING.
func AppendPing(dst []byte, ack bool, data [8]byte) []byte {
	var flags Flags
	if ack {
		flags = FlagAck
	}
	return append(AppendFrameHeader(dst, Ping, flags, 0, len(data)), data[:]...)
}

// AppendGoAway appends GOAWAY (RFC 9113 section 6.8). A drain sends two of them. The
// first has MaxStreamID, because the client may have opened streams that have not
// arrived. The second follows a round trip later. It has the last stream that has
// arrived.
func AppendGoAway(dst []byte, lastStream uint32, code Code) []byte {
	dst = AppendFrameHeader(dst, GoAway, 0, 0, 8)
	dst = binary.BigEndian.AppendUint32(dst, lastStream)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

// AppendWindowUpdate appends a WINDOW_UPDATE (RFC 9113 section 6.9) for the stream, or
// for the connection if stream is 0. increment must be from 1 to MaxWindow.
func AppendWindowUpdate(dst []byte, stream, increment uint32) []byte {
	dst = AppendFrameHeader(dst, WindowUpdate, 0, stream, 4)
	return binary.BigEndian.AppendUint32(dst, increment)
}
