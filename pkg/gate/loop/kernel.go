package loop

import (
	"fmt"
	"net/netip"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kernel is all that a loop, its sockets and those who open them ask of the
// system. Outside of simulations a loop has none, and makes system calls.
//
// Each method does what the call that it is named after does to a non-blocking
// descriptor. Counts are 0 with an error. All are called on the goroutine that
// calls Turn, but for Rouse.
type Kernel interface {
	// Attach makes l known, which Turn is to be called on.
	Attach(l *Loop)
	// Nanotime is the clock, in nanoseconds, above 0.
	Nanotime() int64
	// WakeUp says that something was posted to l. It may be called from any
	// goroutine.
	WakeUp(l *Loop)
	// Watch begins and Unwatch ends the delivery of events of fd to l.
	Watch(l *Loop, fd int, event unix.EpollEvent) error
	Unwatch(l *Loop, fd int)
	Poll(l *Loop, events []unix.EpollEvent) int

	Read(fd int, b []byte) (int, syscall.Errno)
	Peek(fd int) (int, syscall.Errno)
	Send(fd int, b []byte) (int, syscall.Errno)
	Unsent(fd int) int
	Shutdown(fd int)
	// Reset makes Close send RST.
	Reset(fd int)
	Close(fd int)

	Accept(fd int) (conn int, peer netip.AddrPort, err error)
	Acceptable(fd int) bool
	Connect(to netip.AddrPort) (fd int, err error)
	Connected(fd int) bool

	Pipe() (r, w int, err error)
	Splice(from, to, n int) (int, error)
}

// NewSimulated creates a loop on k. Run waits for its end, and Turn runs it.
func NewSimulated(k Kernel) *Loop {
	l := newLoop(k)
	l.done = make(chan struct{})
	k.Attach(l)
	return l
}

// RunOnce handles everything that is due on a loop of NewSimulated. It returns
// when the next turn is due at the latest (0 = no bound), unless there are
// events or Rouse is called before, and whether the loop has ended.
func (l *Loop) RunOnce() (next int64, over bool) {
	if l.serve(0) {
		l.release()
		close(l.done)
		return 0, true
	}
	return l.nextDeadline(), false
}

// Abandon ends a loop of NewSimulated whatever is under way on it.
func (l *Loop) Abandon() { close(l.done) }

// system is what a loop, and those who open its sockets, ask of the system.
type system struct {
	kernel Kernel // nil: system calls
}

// Nanotime reads the clock that Now and deadlines use, afresh.
func (y *system) Nanotime() int64 {
	if y.kernel != nil {
		return y.kernel.Nanotime()
	}
	return nanotime()
}

// WallTime is the time of day. That of a simulation begins at 0.
func (y *system) WallTime() time.Time {
	if y.kernel != nil {
		return time.Unix(0, y.kernel.Nanotime())
	}
	return time.Now()
}

// FreeMemory gives memory that is not in use back to the system, soon.
func (y *system) FreeMemory() {
	if y.kernel == nil {
		go debug.FreeOSMemory()
	}
}

// Accept takes a connection from the backlog of a listening descriptor. The
// error is the system's.
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

// Acceptable reports whether there is a connection to accept.
func (y *system) Acceptable(fd int) bool {
	if y.kernel != nil {
		return y.kernel.Acceptable(fd)
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n > 0 && err == nil
}

// CloseDescriptor closes what no Sock of the loop owns.
func (y *system) CloseDescriptor(fd int) {
	if y.kernel != nil {
		y.kernel.Close(fd)
		return
	}
	_ = unix.Close(fd)
}

// Target is an address to connect to.
type Target struct {
	addr     netip.AddrPort
	family   int
	sockaddr unix.Sockaddr
}

// NewTarget prepares an address.
func NewTarget(addr netip.AddrPort) Target {
	t := Target{addr: addr}
	if a := addr.Addr().Unmap(); a.Is4() {
		t.family, t.sockaddr = unix.AF_INET, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: a.As4()}
	} else {
		t.family, t.sockaddr = unix.AF_INET6, &unix.SockaddrInet6{Port: int(addr.Port()), Addr: a.As16()}
	}
	return t
}

// ErrRefused says that the target does not listen.
var ErrRefused = fmt.Errorf("connecting: %w", syscall.ECONNREFUSED)

// Connect begins a connection. Any error but ErrRefused means that there is no
// descriptor.
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
