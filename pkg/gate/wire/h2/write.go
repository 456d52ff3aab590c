package h2

import (
	"encoding/binary"
	"slices"
)

// AppendFrameHeader adds the header of a frame whose payload of length octets
// follows. The length must not exceed the peer's SETTINGS_MAX_FRAME_SIZE.
func AppendFrameHeader(dst []byte, t Type, flags Flags, stream uint32, length int) []byte {
	return append(dst, byte(length>>16), byte(length>>8), byte(length), byte(t), byte(flags),
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

// AppendDataHeader adds the header of a DATA frame with length octets of data,
// without padding (RFC 9113 section 6.1).
func AppendDataHeader(dst []byte, stream uint32, length int, endStream bool) []byte {
	return AppendFrameHeader(dst, Data, endFlag(endStream), stream, length)
}

func endFlag(endStream bool) Flags {
	if endStream {
		return FlagEndStream
	}
	return 0
}

// BeginHeaders makes room for the header of a HEADERS frame. The field block
// is added to what it returns; EndHeaders, with the length that dst had
// before, completes it.
func BeginHeaders(dst []byte) []byte {
	return append(dst, make([]byte, FrameHeaderLen)...)
}

// EndHeaders completes HEADERS that begin at dst[start:], with as many
// CONTINUATION frames as the block needs (RFC 9113 sections 6.2 and 6.10).
// maxFrame is the peer's SETTINGS_MAX_FRAME_SIZE.
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

// AppendRSTStream adds RST_STREAM (RFC 9113 section 6.4).
func AppendRSTStream(dst []byte, stream uint32, code Code) []byte {
	dst = AppendFrameHeader(dst, RSTStream, 0, stream, 4)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

// Setting is one parameter of SETTINGS (RFC 9113 section 6.5.1).
type Setting struct {
	ID    SettingID
	Value uint32
}

// AppendSettings adds SETTINGS (RFC 9113 section 6.5).
func AppendSettings(dst []byte, settings ...Setting) []byte {
	dst = AppendFrameHeader(dst, Settings, 0, 0, len(settings)*settingLen)
	for _, s := range settings {
		dst = binary.BigEndian.AppendUint16(dst, uint16(s.ID))
		dst = binary.BigEndian.AppendUint32(dst, s.Value)
	}
	return dst
}

// AppendSettingsAck adds the acknowledgement of SETTINGS.
func AppendSettingsAck(dst []byte) []byte {
	return AppendFrameHeader(dst, Settings, FlagAck, 0, 0)
}

// AppendPing adds PING (RFC 9113 section 6.7). An acknowledgement repeats the
// eight octets of data that came.
func AppendPing(dst []byte, ack bool, data [8]byte) []byte {
	var flags Flags
	if ack {
		flags = FlagAck
	}
	return append(AppendFrameHeader(dst, Ping, flags, 0, len(data)), data[:]...)
}

// AppendGoAway adds GOAWAY (RFC 9113 section 6.8). A drain announces
// MaxStreamID first, and the real last stream a round trip later.
func AppendGoAway(dst []byte, lastStream uint32, code Code) []byte {
	dst = AppendFrameHeader(dst, GoAway, 0, 0, 8)
	dst = binary.BigEndian.AppendUint32(dst, lastStream)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

// AppendWindowUpdate adds WINDOW_UPDATE (RFC 9113 section 6.9), of the
// connection for stream 0. The increment is 1 to MaxWindow.
func AppendWindowUpdate(dst []byte, stream, increment uint32) []byte {
	dst = AppendFrameHeader(dst, WindowUpdate, 0, stream, 4)
	return binary.BigEndian.AppendUint32(dst, increment)
}
