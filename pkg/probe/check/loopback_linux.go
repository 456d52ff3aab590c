package check

import (
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// connectLoopback connects to a loopback port without Go's poller. This saves CPU: an
// attempt takes 113 µs, but 185 µs with net.Dialer. If connect(2) does not complete at
// once, known is false, and the caller must use net.Dialer.
func connectLoopback(to netip.AddrPort) (conn *net.TCPConn, known bool, err error) {
	fd, err := connectFD(to)
	if fd < 0 {
		return nil, err != nil, err
	}
	file := os.NewFile(uintptr(fd), "")
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, true, err
	}
	return c.(*net.TCPConn), true, nil
}

// canConnectLoopback is connectLoopback, but closes the connection at once.
func canConnectLoopback(to netip.AddrPort) (known bool, err error) {
	fd, err := connectFD(to)
	if fd >= 0 {
		unix.Close(fd)
	}
	return fd >= 0 || err != nil, err
}

// connectFD returns a connected descriptor, or -1 with an error. If connect(2) does not
// complete at once, it returns -1 without an error.
func connectFD(to netip.AddrPort) (int, error) {
	family, sockaddr := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		family, sockaddr = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err = unix.Connect(fd, sockaddr); err == unix.EINPROGRESS {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, _ := unix.Poll(ready, 0); n != 1 {
			// The backlog is full.
			unix.Close(fd)
			return -1, nil
		}
		var code int
		if code, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code != 0 {
			err = unix.Errno(code)
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("connect", err)
	}
	return fd, nil
}
