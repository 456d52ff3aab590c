package h2

var (
	errConnectionWindow = connectionError(FlowControlError, FaultFlowControl, "connection window above 2^31-1")
	errStreamWindow     = streamError(FlowControlError, FaultFlowControl, "stream window above 2^31-1")
	errSettingsWindow   = connectionError(FlowControlError, FaultFlowControl, "SETTINGS raise a window above 2^31-1")
	errConnectionFlow   = connectionError(FlowControlError, FaultFlowControl, "DATA exceeds the connection window")
	errStreamFlow       = streamError(FlowControlError, FaultFlowControl, "DATA exceeds the stream window")
)

// SendWindow is the credit for sending DATA on a connection or stream (RFC 9113 section
// 6.9). It may be negative.
type SendWindow struct{ credit int32 }

// NewSendWindow returns a window of n octets, at most MaxWindow.
func NewSendWindow(n uint32) SendWindow { return SendWindow{int32(n)} }

// Credit returns the number of octets that may be sent, at least 0.
func (w SendWindow) Credit() int { return int(max(w.credit, 0)) }

// Consume records that n octets are sent. n must be at most Credit.
func (w *SendWindow) Consume(n int) { w.credit -= int32(n) }

// Update applies WINDOW_UPDATE to the window of the connection or of a stream.
func (w *SendWindow) Update(increment uint32, scope Scope) *Error {
	switch n := int64(w.credit) + int64(increment); {
	case n <= MaxWindow:
		w.credit = int32(n)
		return nil
	case scope == Connection:
		return errConnectionWindow
	}
	return errStreamWindow
}

// ApplySettings applies a change of SETTINGS_INITIAL_WINDOW_SIZE to the window of a
// stream (RFC 9113 section 6.9.2).
func (w *SendWindow) ApplySettings(c Changes) *Error {
	if int64(w.credit)+c.Peak > MaxWindow {
		return errSettingsWindow
	}
	w.credit = int32(int64(w.credit) + c.Window)
	return nil
}

// ReceiveWindow is the peer's credit for sending DATA.
type ReceiveWindow struct {
	size     int32 // maximum size
	credit   int32 // credit announced to the peer
	released int32 // credit released but not announced
}

// NewReceiveWindow returns a window of n octets, at most MaxWindow. The peer must already
// know this size, because no WINDOW_UPDATE announces it.
func NewReceiveWindow(n uint32) ReceiveWindow { return ReceiveWindow{size: int32(n), credit: int32(n)} }

// Size returns the maximum size of the window.
func (w *ReceiveWindow) Size() uint32 { return uint32(max(w.size, 0)) }

// Credit returns the announced credit that the peer has not used, at least 0.
func (w *ReceiveWindow) Credit() uint32 { return uint32(max(w.credit, 0)) }

// Receive charges a DATA frame of n octets, including padding, to the window. An empty
// frame is allowed even if the window is negative.
func (w *ReceiveWindow) Receive(n uint32, scope Scope) *Error {
	switch {
	case n == 0 || int64(n) <= int64(w.credit):
		w.credit -= int32(n)
		return nil
	case scope == Connection:
		return errConnectionFlow
	}
	return errStreamFlow
}

// Release records that n received octets no longer need memory, so that the peer may send
// as many new ones. The result is the increment of the WINDOW_UPDATE that the caller must
// send. If it is 0, the caller sends none. To save frames, Release returns 0 until half
// of the window has been released.
func (w *ReceiveWindow) Release(n int) (increment uint32) {
	w.released += int32(n)
	if w.released < w.size/2 {
		return 0
	}
	return w.Flush()
}

// Flush returns the increment of a WINDOW_UPDATE that announces all released credit. If
// it is 0, the caller must send no WINDOW_UPDATE.
func (w *ReceiveWindow) Flush() (increment uint32) {
	n := w.released
	if n <= 0 {
		return 0
	}
	w.credit, w.released = w.credit+n, 0
	return uint32(n)
}

// Shift applies a change of the gate's SETTINGS_INITIAL_WINDOW_SIZE that the peer has
// acknowledged (RFC 9113 section 6.9.2). The caller must call Release(0) or Resize
// afterwards, because the released credit may now be half of a smaller window.
func (w *ReceiveWindow) Shift(n int32) {
	w.size += n
	w.credit += n
}

// Resize changes the size of the window to n octets, at most MaxWindow. The result is the
// increment of the WINDOW_UPDATE that the caller must send, or 0 to send none. Announced
// credit cannot be withdrawn. A smaller window therefore takes effect later: the peer
// uses its credit, and Release announces less new credit.
func (w *ReceiveWindow) Resize(n uint32) (increment uint32) {
	w.released += int32(n) - w.size
	w.size = int32(n)
	return w.Release(0)
}
