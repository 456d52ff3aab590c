package http2

import (
	"crypto/tls"
	"errors"
	"net/http/httptrace"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errStale says that the container has ended a connection over HTTP/1.1, or
// has spoken unasked on it, since its last answer. Nothing of the request that
// meets it has been sent.
var errStale = errors.New("writing to the container: it has ended the connection")

// probed makes c look at its socket before a request begins on it again.
func (c *conn) probed() {
	socket := c.Conn
	if session, ok := socket.(*tls.Conn); ok {
		socket = session.NetConn()
	}
	if s, ok := socket.(syscall.Conn); ok {
		c.socket, _ = s.SyscallConn()
	}
	c.probe = c.peek
}

// quiet reports whether the kernel holds neither bytes nor an end nor an error
// for a connection that should have nothing to say. One system call. The
// caller holds mu.
func (c *conn) quiet() bool {
	c.silent = false
	_ = c.socket.Control(c.probe) // fails on a closed socket, which is not quiet
	return c.silent
}

// peek looks at the socket without taking anything from the reader, who waits
// for it meanwhile. The call never blocks, so the scheduler need not hear of it.
func (c *conn) peek(fd uintptr) {
	var b [1]byte
	_, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	c.silent = e == unix.EAGAIN
}

// begin lets the first bytes of a request go out on a connection that has
// carried others, if it is still good. The caller holds mu.
func (c *conn) begin(s *stream) error {
	c.next.Store(nil)
	if !c.quiet() {
		c.err = errStale
		return c.err
	}
	s.sent.Store(true)
	s.srv.up.reuses.Inc()
	return nil
}

// gotConn is told which connection carries the request. The library tries some
// again by itself.
func (s *stream) gotConn(info httptrace.GotConnInfo) {
	c, ok := info.Conn.(*conn)
	if !ok || c.socket == nil {
		return
	}
	if s.sent.Load() {
		s.srv.up.replays.Inc()
	}
	if s.pooled = info.Reused; s.pooled {
		c.next.Store(s)
	}
}

// wroteHeaders is told that the head has been composed, which on a connection
// from the pool says nothing yet about its going out.
func (s *stream) wroteHeaders() {
	if !s.pooled {
		s.sent.Store(true)
	}
}

// unsent reports whether the request met a connection from the pool that had
// ended, and no byte of it has gone out.
func (s *stream) unsent() bool { return s.pooled && !s.sent.Load() }
