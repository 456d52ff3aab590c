package tlsfront

import (
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// conn is a client's connection, in the runtime's poller: a net.Conn for the
// time of the handshake.
type conn struct {
	file *os.File
	peer netip.AddrPort
	read func([]byte) (int, error)
}

// newConn takes over a non-blocking descriptor.
func newConn(fd int, peer netip.AddrPort) *conn {
	return &conn{file: os.NewFile(uintptr(fd), "client"), peer: peer}
}

// Read is a net.Conn's.
func (c *conn) Read(b []byte) (int, error) { return c.read(b) }

// Write is a net.Conn's.
func (c *conn) Write(b []byte) (int, error) { return c.file.Write(b) }

// Close is a net.Conn's.
func (c *conn) Close() error { return c.file.Close() }

// RemoteAddr is a net.Conn's.
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }

// LocalAddr is a net.Conn's. Nothing asks for it.
func (c *conn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline is a net.Conn's.
func (c *conn) SetDeadline(t time.Time) error { return c.file.SetDeadline(t) }

// SetReadDeadline is a net.Conn's.
func (c *conn) SetReadDeadline(t time.Time) error { return c.file.SetReadDeadline(t) }

// SetWriteDeadline is a net.Conn's.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.file.SetWriteDeadline(t) }

// take takes the descriptor out of the runtime's poller and closes c.
func (c *conn) take() (fd int, err error) {
	defer c.Close()
	raw, err := c.file.SyscallConn()
	if err != nil {
		return -1, err
	}
	if cerr := raw.Control(func(p uintptr) { fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil {
		return -1, cerr
	}
	return fd, err
}
