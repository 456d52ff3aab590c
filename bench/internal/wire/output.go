package wire

import (
	"syscall"

	"github.com/queuegate/queuegate/bench/internal/socket"
)

// Output is what a socket did not take yet: bytes, and behind them filler.
type Output struct {
	Bytes []byte
	Fill  int64 // bytes of Filler
}

// Pending reports whether there is something.
func (o *Output) Pending() bool { return len(o.Bytes) > 0 || o.Fill > 0 }

// Drop forgets everything.
func (o *Output) Drop() { o.Bytes, o.Fill = o.Bytes[:0], 0 }

// Flush writes as much as the socket takes. A short filler leaves with the
// bytes before it.
func (o *Output) Flush(fd int) (written int64, err syscall.Errno) {
	for o.Pending() {
		if n := len(o.Bytes); n > 0 && o.Fill > 0 && n+int(o.Fill) <= 16<<10 {
			o.Bytes = append(o.Bytes, Filler[:o.Fill]...)
			o.Fill = 0
		}
		p := o.Bytes
		if len(p) == 0 {
			p = Filler[:min(o.Fill, int64(len(Filler)))]
		}
		n, errno := socket.Write(fd, p)
		if errno == syscall.EAGAIN || errno == syscall.EINTR {
			return written, 0
		} else if errno != 0 {
			return written, errno
		}
		written += int64(n)
		if len(o.Bytes) > 0 {
			o.Bytes = o.Bytes[:copy(o.Bytes, o.Bytes[n:])]
		} else {
			o.Fill -= int64(n)
		}
		if n < len(p) {
			return written, 0
		}
	}
	return written, 0
}
