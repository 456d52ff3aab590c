package h2

import "time"

// Limits against abuse by the peer.
const (
	MaxResets      = 1000 // stream resets per second, by either side
	MaxEmptyFrames = 1000 // frames without content per second, not including Meter.earned
	MaxUnread      = 1000 // buffered replies to frames of the peer

	// earnedPerFrame is the number of frames without content that the peer may send for
	// each frame with content: two WINDOW_UPDATEs, one SETTINGS and one PING.
	earnedPerFrame = 4
	// The peer may send one more frame without content per KiB of content, because some
	// receivers open their windows in small steps.
	octetsPerEmpty = 1 << 10
	maxEarned      = 1 << 16
	// maxExpected limits how many octets the peer may still send on reset streams before
	// the frames count as frames without content. The gate may reset 250 streams at once,
	// the most that a client may open. The window of each one is at most 64 KiB. The
	// limit is 250 * 64 KiB, rounded up to a power of two.
	maxExpected = 1 << 24
)

var (
	errResets = connectionError(EnhanceYourCalm, FaultResets, "too many stream resets per second")
	errEmpty  = connectionError(EnhanceYourCalm, FaultEmptyFrames, "too many frames without content per second")
	errUnread = connectionError(EnhanceYourCalm, FaultUnread, "peer does not read replies")
)

// Meter limits the work that a peer can cause without transferring content. Rates are per
// second of the caller's clock. The zero value is ready to use.
type Meter struct {
	second   uint32
	resets   uint32
	empty    uint32
	earned   uint32 // frames without content that the peer may send beyond MaxEmptyFrames
	unread   uint32
	expected uint32 // octets that may still arrive on streams reset by the gate
}

// Reset counts a stream reset by the peer, or by the gate because of the peer
// (CVE-2023-44487, CVE-2025-8671). now is in ns.
func (m *Meter) Reset(now int64) *Error {
	m.nextSecond(now)
	if m.resets++; m.resets > MaxResets {
		return errResets
	}
	return nil
}

// Useful records a received or sent frame with n octets of content. The peer may then
// send some more frames without content, because a download needs WINDOW_UPDATEs, for
// example. The counter earned holds their number.
func (m *Meter) Useful(n int) {
	m.earned = min(m.earned+earnedPerFrame+uint32(n/octetsPerEmpty), maxEarned)
}

// Empty processes a received frame without content. It reduces the number of frames that
// Useful has allowed. If this number is 0, the frame counts towards MaxEmptyFrames.
func (m *Meter) Empty(now int64) *Error {
	if m.earned > 0 {
		m.earned--
		return nil
	}
	m.nextSecond(now)
	if m.empty++; m.empty > MaxEmptyFrames {
		return errEmpty
	}
	return nil
}

// Expect records that the gate has reset a stream. Until the peer learns of the reset, it
// may send as many octets as the stream's window allows (RFC 9113 section 5.1).
func (m *Meter) Expect(stream *ReceiveWindow) {
	m.expected = min(m.expected+stream.Credit(), maxExpected)
}

// Late counts a received frame for a closed stream, unless the peer may have sent it
// before it learned of the reset. n is the length on the wire.
func (m *Meter) Late(n int, now int64) *Error {
	if n = max(n, 1); n <= int(m.expected) {
		m.expected -= uint32(n)
		return nil
	}
	return m.Empty(now)
}

// Reply counts a buffered reply to a frame of the peer, such as an acknowledgement or
// RST_STREAM.
func (m *Meter) Reply() *Error {
	if m.unread++; m.unread > MaxUnread {
		return errUnread
	}
	return nil
}

// Written records that all counted replies have been written.
func (m *Meter) Written() { m.unread = 0 }

func (m *Meter) nextSecond(now int64) {
	if s := uint32(now / int64(time.Second)); s != m.second {
		m.second, m.resets, m.empty = s, 0, 0
	}
}
