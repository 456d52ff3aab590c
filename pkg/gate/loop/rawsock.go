package loop

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawSock is what a Sock asks of the system, or of the simulated kernel.
type rawSock struct {
	loop *Loop
	fd   int
}

// FD is the descriptor, owned by the Sock.
func (r *rawSock) FD() int { return r.fd }

// Connected reports whether the connection that Connect began has come about.
func (r *rawSock) Connected() bool {
	if k := r.loop.kernel; k != nil {
		return k.Connected(r.fd)
	}
	_, err := unix.Getpeername(r.fd)
	return err == nil
}

// EaseLoopback is EaseLoopback for the descriptor.
func (r *rawSock) EaseLoopback(peer netip.Addr) {
	if r.loop.kernel == nil {
		EaseLoopback(r.fd, peer)
	}
}

// Buffered is how many bytes are there.
func (r *rawSock) Buffered() int {
	n, err := unix.IoctlGetInt(r.fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// Unsent is how many bytes that were written the peer has not acknowledged.
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

// sysRead, sysDiscard and sysSend are raw system calls: they never block, so the
// scheduler need not know of them. The count is 0 with an error.
func (r *rawSock) sysRead(b []byte) (int, syscall.Errno) {
	if k := r.loop.kernel; k != nil {
		return k.Read(r.fd, b)
	}
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(r.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
		if e == 0 {
			return int(n), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// sysDiscard is sysRead without a buffer: with MSG_TRUNC, TCP drops what is read
// (tcp(7)).
func (r *rawSock) sysDiscard(n int) (int, syscall.Errno) {
	for {
		got, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(r.fd), 0, uintptr(n), unix.MSG_TRUNC|unix.MSG_DONTWAIT, 0, 0)
		if e == 0 {
			return int(got), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

func (r *rawSock) sysSend(b []byte) (int, syscall.Errno) {
	if k := r.loop.kernel; k != nil {
		return k.Send(r.fd, b)
	}
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(r.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
		if e == 0 {
			return int(n), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

func (r *rawSock) peek(b []byte) (int, syscall.Errno) {
	if k := r.loop.kernel; k != nil {
		return k.Peek(r.fd)
	}
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(r.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

func (r *rawSock) shutdown() {
	if k := r.loop.kernel; k != nil {
		k.Shutdown(r.fd)
		return
	}
	_ = unix.Shutdown(r.fd, unix.SHUT_WR)
}

// resetOnClose makes the close send RST.
func (r *rawSock) resetOnClose() {
	if k := r.loop.kernel; k != nil {
		k.Reset(r.fd)
		return
	}
	_ = unix.SetsockoptLinger(r.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}
