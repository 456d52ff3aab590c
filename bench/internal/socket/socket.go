// Package socket has non-blocking TCP and epoll by raw system calls, for the harness's
// event loops.
//
// The calls do not notify the Go scheduler, which saves CPU: the harness must cost less
// than the programs that it measures.
package socket

import (
	"fmt"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var loopback = [4]byte{127, 0, 0, 1}

// Bind reserves a port of 127.0.0.1 without listening, so that connections are refused
// until Listen. Port 0 means any free port.
func Bind(port int) (fd, bound int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, 0, fmt.Errorf("making a listening socket: %w", err)
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: loopback})
	}
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, 0, fmt.Errorf("binding to 127.0.0.1:%d: %w", port, err)
	}
	return fd, name.(*unix.SockaddrInet4).Port, nil
}

// Listen makes a socket of Bind listen.
func Listen(fd int) error {
	if err := unix.Listen(fd, 4096); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return nil
}

// Accept returns the next connection, or EAGAIN if there is none.
func Accept(listener int) (int, error) {
	fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return -1, err
	}
	noDelay(fd)
	return fd, nil
}

// Dial starts a connection to a port of 127.0.0.1; see DialTo.
func Dial(port int) (int, error) { return DialTo(loopback, port) }

// DialTo starts a connection to an IPv4 address. The socket becomes writable when the
// connection is established or has failed; see Connected.
func DialTo(address [4]byte, port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("making a socket: %w", err)
	}
	noDelay(fd)
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: address})
	if err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return -1, fmt.Errorf("connecting to %v:%d: %w", netip.AddrFrom4(address), port, err)
	}
	return fd, nil
}

// Connected returns nil if a connection that Dial or DialTo started is established. If
// the connection has failed, it returns the reason. Call it when the socket is writable.
func Connected(fd int) error {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	return err
}

// Close closes a socket and ignores errors.
func Close(fd int) { unix.Close(fd) }

// Read reads available bytes. It returns 0 and no error at EOF.
func Read(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// Discard discards up to limit available bytes without copying them (MSG_TRUNC, tcp(7)).
// It returns 0 and no error at EOF.
func Discard(fd int, limit int) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, uintptr(limit), unix.MSG_TRUNC|unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// Write writes as many bytes as the socket accepts.
func Write(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func noDelay(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) }

const (
	Readable = unix.EPOLLIN | unix.EPOLLRDHUP
	Writable = unix.EPOLLOUT
)

// A Poller is a level-triggered epoll set. Only Add may be called concurrently with other
// methods.
type Poller struct {
	fd     int
	events [256]unix.EpollEvent
}

// NewPoller returns a Poller without descriptors.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making an epoll set: %w", err)
	}
	return &Poller{fd: fd}, nil
}

// Close closes the epoll set, but not its sockets.
func (p *Poller) Close() { unix.Close(p.fd) }

// Add adds a descriptor to the set.
func (p *Poller) Add(fd int, events uint32) error {
	return p.control(unix.EPOLL_CTL_ADD, fd, events)
}

// Modify makes the set watch a descriptor for the given events. The caller keeps the
// events that are watched now in *watched. If these are the given events, Modify does
// nothing. Otherwise it also stores the given events in *watched.
func (p *Poller) Modify(fd int, watched *uint32, events uint32) error {
	if *watched == events {
		return nil
	}
	*watched = events
	return p.control(unix.EPOLL_CTL_MOD, fd, events)
}

// Remove removes a descriptor without closing it.
func (p *Poller) Remove(fd int) error { return p.control(unix.EPOLL_CTL_DEL, fd, 0) }

func (p *Poller) control(op, fd int, events uint32) error {
	if err := unix.EpollCtl(p.fd, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("changing the epoll set for descriptor %d: %w", fd, err)
	}
	return nil
}

// Wait returns the descriptors that have events. It returns none after the timeout or a
// signal. The slice is valid until the next call. A negative timeout counts as zero.
//
// The thread blocks without notifying the Go scheduler, because a notification would make
// the runtime's monitor thread wake every 20 µs. Therefore the scheduler does not know
// that the thread waits, and other goroutines can run meanwhile only if GOMAXPROCS is at
// least 2.
func (p *Poller) Wait(timeout time.Duration) []unix.EpollEvent {
	ts := unix.NsecToTimespec(int64(max(timeout, 0)))
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
		uintptr(len(p.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	if errno == unix.ENOSYS { // before Linux 5.11
		n, _, errno = syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
			uintptr(len(p.events)), uintptr((max(timeout, 0)+time.Millisecond-1)/time.Millisecond), 0, 0)
	}
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// SharpTimers sets the timer slack of the calling thread to 1 ns instead of 50 µs
// (PR_SET_TIMERSLACK, prctl(2)). The goroutine must be locked to the thread.
func SharpTimers() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }
