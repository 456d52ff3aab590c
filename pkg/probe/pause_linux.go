package probe

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause is a short sleep that can be ended from outside. It blocks its thread
// in the kernel instead of arming a Go timer: a timer wakes a second thread
// that looks for work and finds none. Measured for a refused attempt each
// 10 ms: 86 µs of CPU instead of 147. It is precise to 50 µs, a timer to 1 ms.
type pause struct{ fd int }

// newPause returns nil if the kernel refuses.
func newPause() *pause {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil
	}
	return &pause{fd}
}

// sleep returns after d, when woken, or early for no reason.
func (p *pause) sleep(d time.Duration) {
	timeout := unix.NsecToTimespec(int64(d))
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	if n, _ := unix.Ppoll(fds, &timeout, nil); n == 1 {
		var count [8]byte
		unix.Read(p.fd, count[:])
	}
}

// wake ends the present sleep, or else the next. Any byte order: the count is
// not looked at.
func (p *pause) wake() { unix.Write(p.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (p *pause) close() { unix.Close(p.fd) }
