package http1

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Serve begins to accept connections from ln on all loops and returns at
// once. The server takes a descriptor of its own; ln is closed.
func (s *Server) Serve(ln *net.TCPListener) error { return s.ServeOther(ln, nil) }

// ServeOther is Serve for a port where another protocol comes first. Until its
// first bytes come, a connection waits as those of Serve do; then began takes
// its non-blocking descriptor, which is of the gate's budget. began is called on
// a loop and must not block.
func (s *Server) ServeOther(ln *net.TCPListener, began func(fd int, peer netip.AddrPort)) error {
	defer ln.Close()
	raw, err := ln.SyscallConn()
	if err != nil {
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	}
	for _, e := range s.engines {
		fd := -1
		cerr := raw.Control(func(p uintptr) {
			if fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0); err == nil {
				err = prepareListener(fd)
			}
		})
		if err := errors.Join(cerr, err); err != nil {
			return fmt.Errorf("serving %s: %w", ln.Addr(), err)
		}
		e.loop.Post(func() { e.listen(fd, began) })
	}
	return nil
}

// Adopt serves a connection that was accepted elsewhere: fd is non-blocking,
// holds a descriptor of the gate's budget, and belongs to the server from then
// on. layer, nil for none, lies between its bytes and the engine; nothing else
// may use it any more.
func (s *Server) Adopt(fd int, peer netip.AddrPort, layer *loop.Layer) {
	e := s.engines[int(s.adopted.Inc())%len(s.engines)]
	e.loop.Post(func() { e.adopt(fd, peer, layer) })
}

// AdoptPart is Adopt for the other protocol of the loops.
func (s *Server) AdoptPart(fd int, peer netip.AddrPort, layer *loop.Layer) {
	e := s.engines[int(s.adopted.Inc())%len(s.engines)]
	e.loop.Post(func() { e.part.Adopt(fd, peer, layer, nil) })
}

func (e *engine) adopt(fd int, peer netip.AddrPort, layer *loop.Layer) {
	c := &conn{eng: e, peer: peer}
	if e.srv.leaving.Load() {
		_ = unix.Close(fd)
		e.gate.Descriptors.Release()
		return
	}
	if c.open(fd) != nil {
		return
	}
	if layer != nil {
		c.sock.Wrap(layer)
		e.openSession(c) // a request may stand in the layer already
	}
}

// prepareListener sets what accepted connections inherit: no delay, and a
// keep-alive that finds a vanished peer within a minute.
func prepareListener(fd int) error {
	return errors.Join(
		unix.SetNonblock(fd, true),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3),
	)
}

// listener accepts connections for one loop.
type listener struct {
	eng    *engine
	sock   loop.Sock
	fd     int
	paused bool // the sock is closed, and the descriptor is not
	began  func(fd int, peer netip.AddrPort)
}

// acceptBatch bounds how many connections are accepted before others have
// their turn.
const acceptBatch = 64

func (e *engine) listen(fd int, began func(int, netip.AddrPort)) {
	l := &listener{eng: e, fd: fd, paused: true, began: began}
	e.listeners = append(e.listeners, l)
	l.resume()
}

// Event accepts what has arrived. The listener is level-triggered: what is
// left over comes back.
func (l *listener) Event(*loop.Sock) {
	d := l.eng.gate.Descriptors
	for range acceptBatch {
		if !d.TryAcquire() {
			l.pause()
			return
		}
		fd, sa, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err == nil {
			l.accepted(fd, addrOf(sa))
			continue
		}
		d.Release()
		switch err {
		case unix.ECONNABORTED, unix.EINTR:
			continue
		case unix.EMFILE, unix.ENFILE:
			l.pause()
		}
		return
	}
}

// accepted takes over a connection.
func (l *listener) accepted(fd int, peer netip.AddrPort) {
	loop.EaseLoopback(fd, peer.Addr())
	c := &conn{eng: l.eng, peer: peer, began: l.began}
	if err := c.open(fd); err != nil {
		l.eng.panicked(err)
	}
}

// open makes a silent connection of fd, which holds a descriptor of the budget.
func (c *conn) open(fd int) error {
	e := c.eng
	if err := e.loop.Register(&c.sock, fd, c); err != nil {
		_ = unix.Close(fd)
		e.gate.Descriptors.Release()
		return err
	}
	c.since = e.loop.Now()
	e.silent.push(c)
	return nil
}

// pending reports whether there is a connection to accept.
func (l *listener) pending() bool {
	fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n > 0 && err == nil
}

// pause leaves connections in the backlog until there is a descriptor, if there
// are any: a client that is turned away would take longer to come back.
func (l *listener) pause() {
	if !l.pending() {
		return
	}
	l.paused = true
	l.sock.Detach()
	d := l.eng.gate.Descriptors
	d.Await(func() { l.eng.loop.Post(l.resume) })
	d.Reclaim()
}

// resume accepts again.
func (l *listener) resume() {
	if !l.paused {
		return // closed
	}
	if l.eng.srv.leaving.Load() || l.eng.loop.Closing() {
		l.close()
		return
	}
	l.paused = false
	if err := l.eng.loop.RegisterListener(&l.sock, l.fd, l); err != nil {
		l.paused = true
		l.close()
		l.eng.panicked(err)
	}
}

// drain accepts what stands in the backlog: closing the listener would reset it.
func (l *listener) drain() {
	for l.eng.gate.Descriptors.TryAcquire() {
		fd, sa, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			l.accepted(fd, addrOf(sa))
			continue
		case unix.ECONNABORTED, unix.EINTR:
			l.eng.gate.Descriptors.Release()
			continue
		}
		l.eng.gate.Descriptors.Release()
		return
	}
}

func (l *listener) close() {
	if l.paused {
		_ = unix.Close(l.fd)
	}
	l.paused = false
	l.sock.Close()
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
