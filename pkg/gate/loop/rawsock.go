package loop

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawSock makes the system calls of a Sock, or calls the simulated kernel.
type rawSock struct {
	loop *Loop
	fd   int
}

// FD returns the descriptor, which the Sock owns.
func (r *rawSock) FD() int { return r.fd }

// Connected reports whether the connection started by Connect is established.
func (r *rawSock) Connected() bool {
	if k := r.loop.kernel; k != nil {
		return k.Connected(r.fd)
	}
	// Unlike this call, unix.Getpeername allocates the address.
	var addr unix.RawSockaddrAny
	size := uint32(unix.SizeofSockaddrAny)
	_, _, e := unix.RawSyscall(unix.SYS_GETPEERNAME, uintptr(r.fd), uintptr(unsafe.Pointer(&addr)), uintptr(unsafe.Pointer(&size)))
	return e == 0
}

// TuneLoopback calls the function TuneLoopback for the socket, unless it is simulated.
func (r *rawSock) TuneLoopback(peer netip.Addr) {
	if r.loop.kernel == nil {
		TuneLoopback(r.fd, peer)
	}
}

// Buffered returns the number of bytes in the receive buffer of the kernel.
func (r *rawSock) Buffered() int {
	if k := r.loop.kernel; k != nil {
		return k.Unread(r.fd)
	}
	n, err := unix.IoctlGetInt(r.fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// Unsent returns the number of written bytes that the peer has not acknowledged.
func (r *rawSock) Unsent() int {
	if k := r.loop.kernel; k != nil {
		return k.Unsent(r.fd)
	}
	n, err := unix.IoctlGetInt(r.fd, unix.TIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

func (r *rawSock) sysRead(b []byte) (int, syscall.Errno) {
	if k := r.loop.kernel; k != nil {
		return k.Read(r.fd, b)
	}
	return r.call(unix.SYS_RECVFROM, &b[0], len(b), 0)
}

// sysDiscard discards up to n bytes. With MSG_TRUNC, TCP needs no buffer (tcp(7)).
func (r *rawSock) sysDiscard(n int) (int, syscall.Errno) {
	return r.call(unix.SYS_RECVFROM, nil, n, unix.MSG_TRUNC|unix.MSG_DONTWAIT)
}

func (r *rawSock) sysSend(b []byte) (int, syscall.Errno) {
	if k := r.loop.kernel; k != nil {
		return k.Send(r.fd, b)
	}
	return r.call(unix.SYS_SENDTO, &b[0], len(b), unix.MSG_NOSIGNAL)
}

func (r *rawSock) peek(b []byte) (int, syscall.Errno) {
	if k := r.loop.kernel; k != nil {
		return k.Peek(r.fd)
	}
	return r.call(unix.SYS_RECVFROM, &b[0], len(b), unix.MSG_PEEK|unix.MSG_DONTWAIT)
}

func (r *rawSock) peerClosed() bool {
	p := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLRDHUP}} // POLLHUP and POLLERR are always reported
	n, _ := unix.Poll(p, 0)
	return n > 0
}

// call makes a raw system call on the socket. The system call never blocks. If it fails,
// the returned number of bytes is 0.
func (r *rawSock) call(trap uintptr, b *byte, n int, flags uintptr) (int, syscall.Errno) {
	for {
		got, _, e := unix.RawSyscall6(trap, uintptr(r.fd), uintptr(unsafe.Pointer(b)), uintptr(n), flags, 0, 0)
		if e == 0 {
			return int(got), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

func (r *rawSock) shutdown() {
	if k := r.loop.kernel; k != nil {
		k.Shutdown(r.fd)
		return
	}
	_ = unix.Shutdown(r.fd, unix.SHUT_WR)
}

func (r *rawSock) resetOnClose() {
	if k := r.loop.kernel; k != nil {
		k.Reset(r.fd)
		return
	}
	_ = unix.SetsockoptLinger(r.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}
