package loop

import (
	"fmt"
	"net/netip"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kernel replaces the system calls of a simulated loop.
//
// Each method behaves like the system call of its name on a non-blocking descriptor. A
// method that returns an error returns 0 as the number of bytes. All methods except
// WakeUp are called on the goroutine that calls RunOnce.
type Kernel interface {
	// Attach is called once for each new loop. The owner of the Kernel must then call
	// RunOnce.
	Attach(l *Loop)
	// Nanotime returns the time of the clock in nanoseconds. It must be above 0, because a
	// deadline of 0 means that there is none.
	Nanotime() int64
	// WakeUp requests a RunOnce of l. It may be called from any goroutine.
	WakeUp(l *Loop)
	// Watch starts and Unwatch stops the delivery of events of fd to l.
	Watch(l *Loop, fd int, event unix.EpollEvent) error
	Unwatch(l *Loop, fd int)
	// Poll stores pending events in the slice and returns their number. The second result
	// is true if further events may be pending.
	Poll(l *Loop, events []unix.EpollEvent) (n int, more bool)

	Read(fd int, b []byte) (int, syscall.Errno)
	Peek(fd int) (int, syscall.Errno)
	Send(fd int, b []byte) (int, syscall.Errno)
	Unread(fd int) int
	Unsent(fd int) int
	Shutdown(fd int)
	// Reset prepares Close to send RST.
	Reset(fd int)
	Close(fd int)

	Accept(fd int) (conn int, peer netip.AddrPort, err error)
	Acceptable(fd int) bool
	Connect(to netip.AddrPort) (fd int, err error)
	Connected(fd int) bool

	Pipe() (r, w int, err error)
	Splice(from, to, n int) (int, error)
}

// NewSimulated creates a loop on k. RunOnce does the work; Run only waits until the loop
// has ended.
func NewSimulated(k Kernel) *Loop {
	l := newLoop(k)
	l.done = make(chan struct{})
	k.Attach(l)
	return l
}

// RunOnce handles all pending work of a simulated loop. It returns the time at which it
// must be called again (0 = no such time), and whether the loop has ended. If an event or
// a call of WakeUp comes before this time, RunOnce must be called then.
func (l *Loop) RunOnce() (next int64, hasEnded bool) {
	if l.runPending(0) {
		l.release()
		close(l.done)
		return 0, true
	}
	return l.nextDeadline(), false
}

// Abandon ends a simulated loop without waiting for its live handles.
func (l *Loop) Abandon() { close(l.done) }

// system makes system calls for a loop: its methods read clocks, free memory and open
// sockets. In a simulated loop, the Kernel provides the clock and the sockets.
type system struct {
	kernel Kernel // nil = not simulated
}

// Nanotime reads the clock that Now and deadlines use.
func (y *system) Nanotime() int64 {
	if y.kernel != nil {
		return y.kernel.Nanotime()
	}
	return nanotime()
}

// WallTime returns the time of day. A simulation starts at the Unix epoch.
func (y *system) WallTime() time.Time {
	if y.kernel != nil {
		return time.Unix(0, y.kernel.Nanotime())
	}
	return time.Now()
}

// FreeMemory returns unused memory to the operating system, in the background.
func (y *system) FreeMemory() {
	if y.kernel == nil {
		go debug.FreeOSMemory()
	}
}

// Accept accepts a connection from a listening descriptor. The error is a syscall.Errno.
func (y *system) Accept(fd int) (conn int, peer netip.AddrPort, err error) {
	if y.kernel != nil {
		return y.kernel.Accept(fd)
	}
	conn, sa, err := unix.Accept4(fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return -1, peer, err
	}
	peer = addrOf(sa)
	TuneLoopback(conn, peer.Addr())
	return conn, peer, nil
}

// Acceptable reports whether a connection can be accepted.
func (y *system) Acceptable(fd int) bool {
	if y.kernel != nil {
		return y.kernel.Acceptable(fd)
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n > 0 && err == nil
}

// CloseDescriptor closes a descriptor that no Sock of the loop owns.
func (y *system) CloseDescriptor(fd int) {
	if y.kernel != nil {
		y.kernel.Close(fd)
		return
	}
	_ = unix.Close(fd)
}

// Target is an address for Connect.
type Target struct {
	addr     netip.AddrPort
	family   int
	sockaddr unix.Sockaddr
}

// NewTarget prepares an address for Connect.
func NewTarget(addr netip.AddrPort) Target {
	t := Target{addr: addr}
	if a := addr.Addr().Unmap(); a.Is4() {
		t.family, t.sockaddr = unix.AF_INET, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: a.As4()}
	} else {
		t.family, t.sockaddr = unix.AF_INET6, &unix.SockaddrInet6{Port: int(addr.Port()), Addr: a.As16()}
	}
	return t
}

// ErrRefused means that the target does not listen.
var ErrRefused = fmt.Errorf("connecting: %w", syscall.ECONNREFUSED)

// Connect starts a connection. An error other than ErrRefused means that the system had
// no descriptor.
func (y *system) Connect(t *Target) (fd int, err error) {
	if y.kernel != nil {
		return y.kernel.Connect(t.addr)
	}
	fd, err = unix.Socket(t.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if err = unix.Connect(fd, t.sockaddr); err != nil && err != unix.EINPROGRESS {
		_ = unix.Close(fd)
		return -1, ErrRefused
	}
	return fd, nil
}

func addrOf(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
}
