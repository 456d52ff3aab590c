package tlsfront

import (
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// conn is a client's connection, in the runtime's poller: a net.Conn for the
// time of the handshake.
type conn struct {
	*os.File
	peer netip.AddrPort
	read func([]byte) (int, error)
}

// newConn takes over a non-blocking descriptor.
func newConn(fd int, peer netip.AddrPort) *conn {
	return &conn{File: os.NewFile(uintptr(fd), "client"), peer: peer}
}

// Read is a net.Conn's, as the other methods are that File does not have.
func (c *conn) Read(b []byte) (int, error) { return c.read(b) }

// RemoteAddr is a net.Conn's.
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }

// LocalAddr is a net.Conn's. Nothing asks for it.
func (c *conn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// take takes the descriptor out of the runtime's poller and closes c.
func (c *conn) take() (fd int, err error) {
	defer c.Close()
	raw, err := c.File.SyscallConn()
	if err != nil {
		return -1, err
	}
	if cerr := raw.Control(func(p uintptr) { fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil {
		return -1, cerr
	}
	return fd, err
}
