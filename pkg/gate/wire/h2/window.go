package h2

var (
	errConnectionWindow = connectionError(FlowControlError, FaultFlowControl, "window of the connection beyond 2^31-1")
	errStreamWindow     = streamError(FlowControlError, FaultFlowControl, "window of a stream beyond 2^31-1")
	errSettingsWindow   = connectionError(FlowControlError, FaultFlowControl, "SETTINGS that take a window beyond 2^31-1")
	errConnectionFlow   = connectionError(FlowControlError, FaultFlowControl, "DATA beyond the window of the connection")
	errStreamFlow       = streamError(FlowControlError, FaultFlowControl, "DATA beyond the window of its stream")
)

// SendWindow is how much DATA the peer still takes, on the connection or on a
// stream (RFC 9113 section 6.9). It may be negative. The zero value is closed.
type SendWindow struct{ left int32 }

// NewSendWindow is a window of n octets, at most MaxWindow.
func NewSendWindow(n uint32) SendWindow { return SendWindow{int32(n)} }

// Left is how many octets may be sent; never negative.
func (w SendWindow) Left() int { return int(max(w.left, 0)) }

// Consume notes that n octets, at most Left, are being sent.
func (w *SendWindow) Consume(n int) { w.left -= int32(n) }

// Update applies WINDOW_UPDATE to the window of the connection or of a stream.
func (w *SendWindow) Update(increment uint32, scope Scope) *Error {
	switch n := int64(w.left) + int64(increment); {
	case n <= MaxWindow:
		w.left = int32(n)
		return nil
	case scope == Connection:
		return errConnectionWindow
	}
	return errStreamWindow
}

// ApplySettings applies SETTINGS_INITIAL_WINDOW_SIZE to the window of a stream (RFC
// 9113 section 6.9.2).
func (w *SendWindow) ApplySettings(c Changes) *Error {
	if int64(w.left)+c.Peak > MaxWindow {
		return errSettingsWindow
	}
	w.left = int32(int64(w.left) + c.Window)
	return nil
}

// ReceiveWindow is how much DATA the peer may still send, and how much of what
// it sent has been passed on since it was last told.
type ReceiveWindow struct {
	size     int32 // as large as it gets
	left     int32 // what the peer may send
	released int32 // what it may send again, and does not know
}

// NewReceiveWindow is a window of n octets, at most MaxWindow, which the peer
// knows of.
func NewReceiveWindow(n uint32) ReceiveWindow { return ReceiveWindow{size: int32(n), left: int32(n)} }

// Size is how large the window gets.
func (w *ReceiveWindow) Size() uint32 { return uint32(max(w.size, 0)) }

// Left is how much the peer may send, as far as it knows; never negative.
func (w *ReceiveWindow) Left() uint32 { return uint32(max(w.left, 0)) }

// Receive charges a DATA frame, its padding included. One of nothing always
// fits, even into a window that is negative.
func (w *ReceiveWindow) Receive(n uint32, scope Scope) *Error {
	switch {
	case n == 0 || int64(n) <= int64(w.left):
		w.left -= int32(n)
		return nil
	case scope == Connection:
		return errConnectionFlow
	}
	return errStreamFlow
}

// Release notes that n octets that were received need no memory any more. It
// returns the increment of the WINDOW_UPDATE that is due, or 0: one is sent
// when half of the window has been passed on, so that the peer never stops and
// is not told of every frame.
func (w *ReceiveWindow) Release(n int) (increment uint32) {
	w.released += int32(n)
	if w.released < w.size/2 {
		return 0
	}
	return w.Flush()
}

// Flush returns the increment that is due if nothing shall be held back.
func (w *ReceiveWindow) Flush() (increment uint32) {
	n := w.released
	if n <= 0 {
		return 0
	}
	w.left, w.released = w.left+n, 0
	return uint32(n)
}

// Shift applies a change of our SETTINGS_INITIAL_WINDOW_SIZE that the peer has
// acknowledged (RFC 9113 section 6.9.2). Pass(0) then returns what is due.
func (w *ReceiveWindow) Shift(n int32) {
	w.size += n
	w.left += n
}

// Resize makes the window n octets large, at most MaxWindow, and returns the
// increment that is due for that. A smaller window comes about as the peer
// uses up what it has.
func (w *ReceiveWindow) Resize(n uint32) (increment uint32) {
	w.released += int32(n) - w.size
	w.size = int32(n)
	return w.Release(0)
}
