package h2

import "time"

// The limits of section L of the contract.
const (
	MaxResets      = 1000 // streams reset in a second, by either side
	MaxEmptyFrames = 1000 // frames in a second that carry nothing, beyond those that were earned
	MaxUnread      = 1000 // frames of ours that answer frames of the peer, and that it does not read

	earnedPerFrame = 4       // updates of both windows, SETTINGS, a PING that measures
	octetsPerEmpty = 1 << 10 // of payload, for receivers that open their windows in small steps
	maxEarned      = 1 << 16
)

var (
	errResets = connectionError(EnhanceYourCalm, FaultResets, "too many streams reset in a second")
	errEmpty  = connectionError(EnhanceYourCalm, FaultEmptyFrames, "too many frames that carry nothing in a second")
	errUnread = connectionError(EnhanceYourCalm, FaultUnread, "replies are not read")
)

// Meter bounds what a peer may make us do for nothing. Rates are counted by
// the second, on whatever clock the caller has; the zero value has counted
// nothing.
type Meter struct {
	second uint32
	resets uint32
	empty  uint32
	earned uint32
	unread uint32
	late   uint32 // octets that may come on streams that we have reset
}

// Reset notes that a stream was reset, by the peer or by us because of the
// peer (CVE-2023-44487, CVE-2025-8671). now is in nanoseconds.
func (m *Meter) Reset(now int64) *Error {
	m.nextSecond(now)
	if m.resets++; m.resets > MaxResets {
		return errResets
	}
	return nil
}

// Useful notes a frame that brought a message forward, received or sent, with n
// octets of payload. It earns the peer some that carry nothing: a download of
// many DATA frames needs as many WINDOW_UPDATEs.
func (m *Meter) Useful(n int) {
	m.earned = min(m.earned+earnedPerFrame+uint32(n/octetsPerEmpty), maxEarned)
}

// Empty notes a received frame that carries nothing.
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

// Expect notes that we have reset a stream on which the peer may still send what
// stream has left, before it knows of it (RFC 9113 section 5.1), and on all of
// them together no more than connection has.
func (m *Meter) Expect(stream, connection *ReceiveWindow) {
	m.late = min(m.late+stream.Left(), connection.Left())
}

// Late notes a received frame with n octets that is for a stream which is over.
// Those that may have been under way when we reset it are no fault.
func (m *Meter) Late(n int, now int64) *Error {
	if n = max(n, 1); n <= int(m.late) {
		m.late -= uint32(n)
		return nil
	}
	return m.Empty(now)
}

// Reply notes that an acknowledgement, RST_STREAM or the like waits to be
// written because of what the peer sent.
func (m *Meter) Reply() *Error {
	if m.unread++; m.unread > MaxUnread {
		return errUnread
	}
	return nil
}

// Written notes that all replies have been written.
func (m *Meter) Written() { m.unread = 0 }

// nextSecond begins a new second if the last one is over.
func (m *Meter) nextSecond(now int64) {
	if s := uint32(now / int64(time.Second)); s != m.second {
		m.second, m.resets, m.empty = s, 0, 0
	}
}
